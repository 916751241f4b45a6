"""The engine: step plans in, step results out, over one model on one machine."""

import os
import signal
import time
from collections.abc import Iterator

import numpy as np

from services.executor.backends.backend import Backend, Rows
from services.executor.blocks import BLOCK_SIZE
from services.executor.output import StepOutput
from services.executor.readings import PromptReading, Readings
from services.executor.slots import InvalidPlan, Slots
from services.executor.work import Work
from services.wire.execution import (
    GREEDY,
    AdmittedSlot,
    Capacity,
    KvGroup,
    ModelCard,
    Reset,
    StepPlan,
    StepResult,
)
from services.wire.message import int32_column

_LOGIT_ROWS_AT_A_TIME = 64
_KILLED_AT_OUTPUT = 40


class Engine:
    """Owns a back end and the slots. All but the weights is a cache that one admission rebuilds."""

    def __init__(
        self,
        backend: Backend,
        card: ModelCard,
        *,
        max_slots: int,
        max_step_tokens: int,
        kill_token: int = -1,
    ) -> None:
        """`kill_token` is a test hook: a prompt that holds it kills this process at its 40th output token."""
        self._backend = backend
        self._card = card
        self._most = Reset(max_slots=max_slots, max_step_tokens=max_step_tokens)
        self._kill_token = kill_token
        self.reset(0, self._most)

    def reset(self, session: int, reset: Reset) -> Capacity:  # noqa: ARG002 (frames carry the session; slots do not)
        """Forgets every slot, and says what there is room for: no more than asked for, no more than there is."""
        self._last_plan = 0
        self._max_step_tokens = min(reset.max_step_tokens, self._most.max_step_tokens)
        max_slots = min(reset.max_slots, self._most.max_slots)
        self._slots = Slots(
            max_slots=max_slots,
            num_blocks=self._backend.num_blocks,
            context_length=self._card.context_length,
            vocab_size=self._card.vocab_size,
            eos_ids=tuple(self._card.eos_ids.tolist()),
        )
        group = KvGroup(
            num_blocks=self._backend.num_blocks,
            block_size=BLOCK_SIZE,
            bytes_per_token=self._backend.bytes_per_token,
        )
        return Capacity(groups=(group,), max_slots=max_slots, max_step_tokens=self._max_step_tokens, card=self._card)

    def step(self, plan: StepPlan) -> StepResult:
        """Updates slots, builds the ragged batch, computes it, samples.

        Raises:
            InvalidPlan: the plan contradicts the session so far; nothing but a reset can follow.
        """
        began = time.perf_counter_ns()
        work = self._update(plan)
        updated = time.perf_counter_ns()
        output = StepOutput()
        forwarded = updated
        if work:
            readings = Readings.of(work)
            hidden = self._backend.forward(work, np.array(readings.rows, np.int32))
            forwarded = time.perf_counter_ns()
            self._sample(readings, hidden, output)
        sampled = time.perf_counter_ns()
        return output.result(
            plan.plan,
            update_us=(updated - began) // 1000,
            forward_us=(forwarded - updated) // 1000,
            sample_us=(sampled - forwarded) // 1000,
        )

    def warm_up(self) -> None:
        """Generates two tokens, so that the first request finds memory and kernels in place."""
        self.reset(0, self._most)
        admitted = AdmittedSlot(
            slot=0,
            token_ids=int32_column([0]),
            prompt_length=1,
            token_limit=3,
            blocks=int32_column([0]),
            sampling=GREEDY,
        )
        chunk = int32_column([0]), int32_column([1])
        self.step(StepPlan(plan=1, admitted=(admitted,), chunk_slots=chunk[0], chunk_counts=chunk[1]))
        self.step(StepPlan(plan=2, started=int32_column([0])))
        self.reset(0, self._most)

    def _update(self, plan: StepPlan) -> list[Work]:
        """Applies the plan's changes; returns what it computes."""
        if plan.plan != self._last_plan + 1:
            raise InvalidPlan(f"plan {plan.plan} came after plan {self._last_plan}")
        self._last_plan = plan.plan
        self._slots.apply(plan)
        work = [Work(slot, slot.computed, 1) for slot in self._slots.decoding()]
        work += self._chunks(plan)
        if sum([item.count for item in work]) > self._max_step_tokens:
            raise InvalidPlan(f"plan {plan.plan} computes more than {self._max_step_tokens} tokens")
        for item in work:
            self._check(item)
            if self._kill_token >= 0:
                self._kill_if_poisoned(item)
            item.slot.computed = item.end
        return work

    def _chunks(self, plan: StepPlan) -> Iterator[Work]:
        seen = set()
        for index, count in zip(plan.chunk_slots.tolist(), plan.chunk_counts.tolist(), strict=True):
            slot = self._slots.get(index)
            if self._slots.is_decoding(index) or index in seen or count < 1:
                raise InvalidPlan(f"slot {index} cannot have a chunk of {count} tokens in plan {plan.plan}")
            seen.add(index)
            if not slot.ended:
                yield Work(slot, slot.computed, count)

    def _sample(self, readings: Readings, hidden: Rows, output: StepOutput) -> None:
        for prompt in readings.prompts:
            self._read_prompt(prompt, hidden[prompt.first : prompt.first + len(prompt.positions)], output)
        if readings.drawing:
            drawn_from = hidden[readings.drawn_from] if readings.prompts else hidden
            output.draw(readings.drawing, self._backend.logits(drawn_from), self._backend)

    def _read_prompt(self, prompt: PromptReading, hidden: Rows, output: StepOutput) -> None:
        for start in range(0, len(hidden), _LOGIT_ROWS_AT_A_TIME):
            logits = self._backend.logits(hidden[start : start + _LOGIT_ROWS_AT_A_TIME])
            output.add_prompt_logprobs(prompt.slot, prompt.positions[start], logits)

    def _check(self, item: Work) -> None:
        slot, end = item.slot, item.end
        if end > slot.length:
            raise InvalidPlan(f"slot {slot.admitted.slot} is to compute up to token {end}, but {slot.length} are known")
        if end > slot.block_count * BLOCK_SIZE:
            raise InvalidPlan(f"slot {slot.admitted.slot} is to compute up to token {end} in {slot.block_count} blocks")
        if end > self._backend.num_positions:
            raise InvalidPlan(
                f"slot {slot.admitted.slot} is to compute up to token {end}, past context or pool, which end at "
                f"{self._backend.num_positions}"
            )

    def _kill_if_poisoned(self, item: Work) -> None:
        slot = item.slot
        if item.draws and slot.num_output_tokens == _KILLED_AT_OUTPUT and self._kill_token in slot.prompt:
            os.kill(os.getpid(), signal.SIGKILL)
