"""The simulated executor: speaks and checks the executor's whole protocol, computes nothing, answers by a script.

In the place of keys and values each cell of its pool holds a digest of the tokens up to there. A step checks that a
slot's blocks hold the digests of its own tokens, so a wrong block, a stale prefix or a skipped token is found at once.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.executor.settings import ExecutorSettings
from services.executor.simulated_card import simulated_card
from services.executor.simulated_script import LogprobTable, ScriptName, draw, is_stop
from services.executor.simulated_slot import BrokenPlan, SimulatedSlot
from services.wire.execution import AdmittedSlot, Capacity, KvGroup, Reset, StepPlan, StepResult
from services.wire.message import int32_column

BYTES_PER_TOKEN = 8  # of the digest: plausible for a capacity message
KILLED_AT_OUTPUT = 40  # of the test hook


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedModel:
    """What is simulated: sizes, the script, and how long a step takes."""

    script: ScriptName = "echo"
    num_blocks: int = 4096
    block_size: int = 16
    max_slots: int = 256
    max_step_tokens: int = 8192
    context_length: int = 8192
    step_fixed_us: int = 1000
    step_per_token_us: int = 20
    step_per_context_token_ns: int = 5
    kill_token: int = -1

    def step_us(self, num_tokens: int, context_tokens: int) -> int:
        """How long a step takes that computes `num_tokens` and reads `context_tokens`."""
        return (
            self.step_fixed_us
            + self.step_per_token_us * num_tokens
            + self.step_per_context_token_ns * context_tokens // 1000
        )


def simulated_model(settings: ExecutorSettings) -> SimulatedModel:
    """The model that a process's settings ask for."""
    return SimulatedModel(
        script=settings.simulated_script,
        num_blocks=settings.simulated_num_blocks,
        max_slots=settings.max_slots,
        max_step_tokens=settings.max_step_tokens,
        step_fixed_us=settings.simulated_step_fixed_us,
        step_per_token_us=settings.simulated_step_per_token_us,
        step_per_context_token_ns=settings.simulated_step_per_context_token_ns,
        kill_token=settings.armed_kill_token,
    )


class SimulatedExecutor:
    """The engine protocol (`reset`, `step`) without a model. `sleep` (seconds) makes steps take their time."""

    def __init__(
        self,
        model: SimulatedModel | None = None,
        *,
        sleep: Callable[[float], None] | None = None,
        kill: Callable[[], None] | None = None,
    ) -> None:
        self.model = model or SimulatedModel()
        self._sleep = sleep
        self._kill = kill or _kill_this_process
        self._slots: dict[int, SimulatedSlot] = {}
        self._cells = self._empty_cells()
        self._max_slots = 0
        self._max_step_tokens = 0
        self._next_plan = 0

    def reset(self, session: int, reset: Reset) -> Capacity:  # noqa: ARG002 the session is the worker's business
        """Forgets all; says what there is."""
        model = self.model
        self._slots.clear()
        self._cells = self._empty_cells()
        self._max_slots = min(reset.max_slots, model.max_slots)
        self._max_step_tokens = min(reset.max_step_tokens, model.max_step_tokens)
        self._next_plan = 1
        return Capacity(
            groups=(
                KvGroup(num_blocks=model.num_blocks, block_size=model.block_size, bytes_per_token=BYTES_PER_TOKEN),
            ),
            max_slots=self._max_slots,
            max_step_tokens=self._max_step_tokens,
            card=simulated_card(model.script, model.context_length),
        )

    def step(self, plan: StepPlan) -> StepResult:
        """Checks and runs one plan. Raises `BrokenPlan`."""
        if plan.plan != self._next_plan:
            raise BrokenPlan(f"plan {plan.plan} came where {self._next_plan} was due")
        self._next_plan += 1
        self._update(plan)
        work = self._work(plan)
        num_tokens = sum(work.values())
        if num_tokens > self._max_step_tokens:
            raise BrokenPlan(f"{num_tokens} tokens in a step of at most {self._max_step_tokens}")
        self._write(work)
        context_tokens = self._read(work)
        forward_us = self.model.step_us(num_tokens, context_tokens)
        if self._sleep:
            self._sleep(forward_us / 1e6)
        return self._sample(plan.plan, work, forward_us)

    def _update(self, plan: StepPlan) -> None:
        """Applies a plan's changes, in the protocol's order."""
        for slot in plan.released.tolist():
            self._slot(slot)
            del self._slots[slot]
        for slot in plan.paused.tolist():
            if not self._slot(slot).decoding:
                raise BrokenPlan(f"slot {slot} is paused but does not decode")
            self._slots[slot].decoding = False
        for admitted in plan.admitted:
            self._admit(admitted)
        for slot, block in zip(plan.append_slots.tolist(), plan.append_blocks.tolist(), strict=True):
            self._check_block(block)
            self._slot(slot).append(block)
        for slot in plan.started.tolist():
            if self._slot(slot).decoding:
                raise BrokenPlan(f"slot {slot} is started but decodes already")
            self._slots[slot].decoding = True

    def _admit(self, admitted: AdmittedSlot) -> None:
        if admitted.slot in self._slots or admitted.slot >= self._max_slots:
            raise BrokenPlan(f"slot {admitted.slot} is taken, or beyond the {self._max_slots} there are")
        if admitted.token_limit > self.model.context_length:
            raise BrokenPlan(f"slot {admitted.slot} may grow beyond the context of {self.model.context_length}")
        slot = self._slots[admitted.slot] = SimulatedSlot(admitted, self.model.script, self.model.block_size)
        for block in admitted.blocks.tolist():
            self._check_block(block)
            slot.append(block)

    def _work(self, plan: StepPlan) -> dict[int, int]:
        """How many tokens each slot computes: one for each of the decode set, then the chunks."""
        work = {number: 1 for number, slot in self._slots.items() if slot.decoding and not slot.ended}
        for number in work:
            slot = self._slots[number]
            if slot.computed != slot.known - 1:
                raise BrokenPlan(f"slot {number} decodes with {slot.known - slot.computed} tokens to compute")
        for number, count in zip(plan.chunk_slots.tolist(), plan.chunk_counts.tolist(), strict=True):
            slot = self._slot(number)
            if slot.decoding or number in work or not 0 < count <= slot.known - slot.computed:
                raise BrokenPlan(f"slot {number} cannot compute a chunk of {count} tokens")
            work[number] = count
        return work

    def _write(self, work: dict[int, int]) -> None:
        """Writes the digests of all new tokens, for every slot, before any is read."""
        block_size = self.model.block_size
        writers: dict[int, int] = {}
        for number, count in work.items():
            slot = self._slots[number]
            start, end = slot.computed, slot.computed + count
            if end > slot.num_blocks * block_size:
                raise BrokenPlan(f"slot {number} has blocks for {slot.num_blocks * block_size} of {end} tokens")
            for block in slot.blocks[start // block_size : -(-end // block_size)].tolist():
                if writers.setdefault(block, number) != number:
                    raise BrokenPlan(f"slots {writers[block]} and {number} both write block {block}")
            if count == 1:  # the common case, at a fifth of the cost
                self._cells[slot.blocks[start // block_size] * block_size + start % block_size] = slot.digests[end]
            else:
                positions = np.arange(start, end)
                cells = slot.blocks[positions // block_size] * block_size + positions % block_size
                self._cells[cells] = slot.digests[start + 1 : end + 1]
            slot.computed = end

    def _read(self, work: dict[int, int]) -> int:
        """Checks what each working slot reads; returns how many tokens that is."""
        by_block = self._cells.reshape(-1, self.model.block_size)
        context_tokens = 0
        for number in work:
            slot = self._slots[number]
            held = by_block[slot.blocks[: -(-slot.computed // self.model.block_size)]].reshape(-1)[: slot.computed]
            wrong = held != slot.digests[1 : slot.computed + 1]
            if wrong.any():
                position = int(np.flatnonzero(wrong)[0])
                raise BrokenPlan(f"the blocks of slot {number} do not hold its token {position}")
            context_tokens += slot.computed
        return context_tokens

    def _sample(self, plan: int, work: dict[int, int], forward_us: int) -> StepResult:
        drawn: dict[int, int] = {}
        stopped, failed = [], []
        logprobs, prompt_logprobs = LogprobTable(), LogprobTable()
        for number, count in work.items():
            slot = self._slots[number]
            slot.add_prompt_logprobs(prompt_logprobs, count)
            if slot.computed < slot.known or slot.known >= slot.admitted.token_limit:
                continue
            token = self._draw(number, slot, logprobs)
            if token is None:
                failed.append(number)
                continue
            drawn[number] = token
            if is_stop(token, slot.admitted.sampling):
                stopped.append(number)
            slot.ended = number in stopped or slot.known == slot.admitted.token_limit
        return StepResult(
            plan=plan,
            slots=int32_column(list(drawn)),
            counts=int32_column([1] * len(drawn)),
            tokens=int32_column(list(drawn.values())),
            stopped=int32_column(stopped),
            failed=int32_column(failed),
            logprobs=logprobs.rows(),
            prompt_logprobs=prompt_logprobs.rows(),
            forward_us=forward_us,
            step_us=forward_us,
        )

    def _draw(self, number: int, slot: SimulatedSlot, logprobs: LogprobTable) -> int | None:
        """Draws the next token of a slot; None, and the slot has ended, when its request forbids every token."""
        position, admitted = slot.known, slot.admitted
        output_index = position - admitted.prompt_length
        if output_index == KILLED_AT_OUTPUT and self.model.kill_token in admitted.token_ids[: admitted.prompt_length]:
            self._kill()
        preferred = slot.answer(position, slot.last_token)
        token = draw(preferred, position, output_index, admitted.sampling)
        if token is None:
            slot.ended = True
            return None
        if admitted.sampling.logprobs >= 0:
            logprobs.add_drawn(number, position, token, admitted.sampling.logprobs)
        slot.learn(token)
        return token

    def _slot(self, number: int) -> SimulatedSlot:
        slot = self._slots.get(number)
        if slot is None:
            raise BrokenPlan(f"slot {number} holds no sequence")
        return slot

    def _check_block(self, block: int) -> None:
        if not 0 <= block < self.model.num_blocks:
            raise BrokenPlan(f"block {block} is not in the pool of {self.model.num_blocks}")

    def _empty_cells(self) -> npt.NDArray[np.uint64]:
        return np.zeros(self.model.num_blocks * self.model.block_size, np.uint64)


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


__all__ = ["BrokenPlan", "SimulatedExecutor", "SimulatedModel", "simulated_model"]
