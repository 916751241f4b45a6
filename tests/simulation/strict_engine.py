"""A fake engine that believes nothing: every rule of the executor's protocol is checked with plain Python data.

A cell of its pool holds a digest of the sequence up to there, so that a read of a wrong, stale or unwritten cell is seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from services.scheduler.driver import EngineLost
from services.wire.execution import (
    AdmittedSlot,
    Capacity,
    KvGroup,
    LogprobRows,
    ModelCard,
    Reset,
    Sampling,
    StepPlan,
    StepResult,
)
from services.wire.message import float32_column, int32_column

VOCAB_SIZE = 97
EOS = 0
POISON = 95
"""A prompt that begins with it kills the executor when its output number 3 is to be drawn."""
FAILING = 96
"""A prompt that begins with it fails at its output number 3."""
TROUBLE_AT = 3
_MASK = 2**64 - 1


def extend(digest: int, token: int) -> int:
    """The digest of a sequence that is one token longer."""
    return (digest * 6364136223846793005 + token * 2 + 1442695040888963407) & _MASK


def draw(digest: int, position: int, seed: int) -> int:
    """The token at `position`: a function of what is before it, of the position and of the seed."""
    mixed = (digest ^ (seed * 0x9E3779B97F4A7C15) ^ (position * 0xBF58476D1CE4E5B9)) & _MASK
    mixed = ((mixed ^ (mixed >> 31)) * 0x94D049BB133111EB) & _MASK
    return (mixed >> 33) % VOCAB_SIZE


def expected_tokens(
    prompt: Sequence[int], max_tokens: int, seed: int = 0, sampling: Sampling | None = None
) -> list[int]:
    """What an answer must be, whatever happened on its way."""
    digest = 0
    for token in prompt:
        digest = extend(digest, token)
    answer: list[int] = []
    while len(answer) < max_tokens:
        token = draw(digest, len(prompt) + len(answer), seed)
        answer.append(token)
        if is_stop(token, sampling or Sampling()):
            break
        digest = extend(digest, token)
    return answer


def is_stop(token: int, sampling: Sampling) -> bool:
    return token in sampling.stop_ids or (token == EOS and not sampling.ignore_eos)


def card(fingerprint: str = "f0", context_length: int = 4096) -> ModelCard:
    return ModelCard(
        name="strict",
        fingerprint=fingerprint,
        numerics_digest="d0",
        batch_invariant=True,
        context_length=context_length,
        vocab_size=VOCAB_SIZE,
        eos_ids=int32_column([EOS]),
    )


@dataclass
class Slot:
    admitted: AdmittedSlot
    tokens: list[int]
    blocks: list[int]
    computed: int
    digests: list[int] = field(default_factory=lambda: [0])
    is_decoding: bool = False
    has_ended: bool = False

    def learn(self, token: int) -> None:
        self.tokens.append(token)
        self.digests.append(extend(self.digests[-1], token))


class StrictEngine:
    """`reset` and `step`; raises AssertionError for a plan that no scheduler may send."""

    def __init__(
        self,
        *,
        num_blocks: int = 256,
        block_size: int = 16,
        max_slots: int = 64,
        step_us: int = 1000,
        context_length: int = 4096,
        fingerprint: str = "f0",
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.max_slots = max_slots
        self.max_step_tokens = 1 << 20
        self.step_us = step_us
        self.card = card(fingerprint, context_length)
        self.num_computed = 0
        self.plan_bytes = 0
        self._slots: dict[int, Slot] = {}
        self._cells: list[int | None] = []
        self._num_slots = 0
        self._budget = 0
        self._next_plan = 0

    def reset(self, session: int, reset: Reset) -> Capacity:
        self._slots = {}
        self._cells = [None] * (self.num_blocks * self.block_size)
        self._num_slots = min(self.max_slots, reset.max_slots)
        self._budget = min(self.max_step_tokens, reset.max_step_tokens)
        self._next_plan = 1
        group = KvGroup(num_blocks=self.num_blocks, block_size=self.block_size, bytes_per_token=1)
        return Capacity(groups=(group,), max_slots=self.max_slots, max_step_tokens=self.max_step_tokens, card=self.card)

    def step(self, plan: StepPlan) -> StepResult:
        assert plan.plan == self._next_plan, "plans are numbered in order"
        assert plan.time_limit_ms >= 10_000
        self._next_plan += 1
        self._change(plan)
        work = self._work(plan)
        assert sum(work.values()) <= self._budget, "the budget is exceeded"
        # With two plans under way, a slot may have stopped that the next plan still counts on.
        assert work or any(slot.has_ended for slot in self._slots.values()), "there is nothing to do"
        self.num_computed += sum(work.values())
        self._write(work)
        self._read(work)
        return self._sample(plan.plan, work)

    def _change(self, plan: StepPlan) -> None:
        for slot in plan.released.tolist():
            del self._slots[slot]
        for slot in plan.paused.tolist():
            assert self._slots[slot].is_decoding, "paused, but it does not decode"
            self._slots[slot].is_decoding = False
        for admitted in plan.admitted:
            self._admit(admitted)
        for slot, block in zip(plan.append_slots.tolist(), plan.append_blocks.tolist(), strict=True):
            held = self._slots[slot]
            assert all(block not in other.blocks for other in self._slots.values()), "a block has an owner already"
            assert len(held.tokens) >= len(held.blocks) * self.block_size, "a block before it is needed"
            held.blocks.append(block)
            self._spoil(block)
        for slot in plan.started.tolist():
            assert not self._slots[slot].is_decoding, "started, but it decodes already"
            self._slots[slot].is_decoding = True

    def _admit(self, admitted: AdmittedSlot) -> None:
        assert 0 <= admitted.slot < self._num_slots
        assert admitted.slot not in self._slots, "the slot is taken"
        blocks, size = admitted.blocks.tolist(), self.block_size
        assert len(blocks) == -(-len(admitted.token_ids) // size), "blocks for exactly the known tokens"
        assert len(set(blocks)) == len(blocks)
        assert all(0 <= block < self.num_blocks for block in blocks)
        assert admitted.computed_length % size == 0
        for block in blocks[admitted.computed_length // size :]:
            assert all(block not in slot.blocks for slot in self._slots.values()), "a new block has an owner already"
            self._spoil(block)
        slot = Slot(admitted, [], blocks, admitted.computed_length)
        for token in admitted.token_ids.tolist():
            slot.learn(token)
        self._slots[admitted.slot] = slot

    def _spoil(self, block: int) -> None:
        """A new owner must not read what was there."""
        self._cells[block * self.block_size : (block + 1) * self.block_size] = [None] * self.block_size

    def _work(self, plan: StepPlan) -> dict[int, int]:
        work = {}
        for number, slot in self._slots.items():
            if slot.is_decoding and not slot.has_ended:
                assert slot.computed == len(slot.tokens) - 1, "decodes with more than one token to compute"
                work[number] = 1
        for number, count in zip(plan.chunk_slots.tolist(), plan.chunk_counts.tolist(), strict=True):
            slot = self._slots[number]
            assert not slot.is_decoding
            assert number not in work
            assert 0 < count <= len(slot.tokens) - slot.computed
            work[number] = count
        return work

    def _write(self, work: dict[int, int]) -> None:
        for number, count in work.items():
            slot = self._slots[number]
            for position in range(slot.computed, slot.computed + count):
                block = slot.blocks[position // self.block_size]
                cell = block * self.block_size + position % self.block_size
                assert self._cells[cell] is None, "a cell is written twice"
                self._cells[cell] = slot.digests[position + 1]

    def _read(self, work: dict[int, int]) -> None:
        """After all have written, as in a layer."""
        for number, count in work.items():
            slot = self._slots[number]
            slot.computed += count
            for position in range(slot.computed):
                cell = slot.blocks[position // self.block_size] * self.block_size + position % self.block_size
                assert self._cells[cell] == slot.digests[position + 1], "what is read is not this sequence's"

    def _sample(self, plan: int, work: dict[int, int]) -> StepResult:
        drawn: dict[int, int] = {}
        stopped, failed = [], []
        for number in work:
            slot = self._slots[number]
            admitted = slot.admitted
            if slot.computed < len(slot.tokens) or len(slot.tokens) == admitted.token_limit:
                continue
            output = len(slot.tokens) - admitted.prompt_length
            if output == TROUBLE_AT and admitted.token_ids[0] == POISON:
                raise EngineLost
            if output == TROUBLE_AT and admitted.token_ids[0] == FAILING:
                slot.has_ended = True
                failed.append(number)
                continue
            token = draw(slot.digests[-1], len(slot.tokens), admitted.seed)
            slot.learn(token)
            drawn[number] = token
            if is_stop(token, admitted.sampling):
                stopped.append(number)
            slot.has_ended = number in stopped or len(slot.tokens) == admitted.token_limit
        rows = [
            (number, len(self._slots[number].tokens) - 1)
            for number in drawn
            if self._slots[number].admitted.sampling.logprobs >= 0
        ]
        return StepResult(
            plan=plan,
            slots=int32_column(list(drawn)),
            counts=int32_column([1] * len(drawn)),
            tokens=int32_column(list(drawn.values())),
            stopped=int32_column(stopped),
            failed=int32_column(failed),
            logprobs=_rows(rows),
            prompt_logprobs=_rows(self._prompt_rows(work)),
            step_us=self.step_us,
        )

    def _prompt_rows(self, work: dict[int, int]) -> list[tuple[int, int]]:
        """(slot, position) of the prompt tokens that this step has logprobs of."""
        rows: list[tuple[int, int]] = []
        for number, count in work.items():
            slot = self._slots[number]
            if slot.admitted.sampling.prompt_logprobs >= 0:
                first, end = slot.computed - count + 1, min(slot.computed + 1, slot.admitted.prompt_length)
                rows += [(number, position) for position in range(first, end)]
        return rows


def _rows(rows: list[tuple[int, int]]) -> LogprobRows | None:
    """Each row's log-probability is minus its position, so that a test can tell rows apart."""
    if not rows:
        return None
    positions = [position for _, position in rows]
    return LogprobRows(
        slots=int32_column([slot for slot, _ in rows]),
        positions=int32_column(positions),
        chosen=float32_column([-position for position in positions]),
        ranks=int32_column([1] * len(rows)),
        top_counts=int32_column([1] * len(rows)),
        top_ids=int32_column(positions),
        top_logprobs=float32_column([-position for position in positions]),
    )
