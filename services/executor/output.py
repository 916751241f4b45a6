"""The output of a step: tokens drawn from logits and the logprobs that were asked for, collected into a result."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.executor.backends.backend import Backend
from services.executor.finite_rows import finite_rows
from services.executor.logprobs import LogprobCollector
from services.executor.next_tokens import next_tokens
from services.executor.slots import Slot
from services.executor.work import Work
from services.wire.execution import StepResult
from services.wire.message import int32_column

LogitRows = npt.NDArray[np.float32]


class StepOutput:
    """Grows while a step's logits come in; `result` makes the message.

    What is not finite is looked for here, and fails its slot: numpy, which would warn of it too, is told to be silent.
    """

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._tokens: list[int] = []
        self._stopped: list[int] = []
        self._failed: list[int] = []
        self._logprobs = LogprobCollector()
        self._prompt_logprobs = LogprobCollector()

    @np.errstate(all="ignore")
    def draw(self, slots: Sequence[Slot], logits: LogitRows, backend: Backend) -> None:
        """Draws the next token of each slot and appends it there.

        Args:
            slots: whose tokens are drawn.
            logits: row i is that of slot i.
            backend: made the logits.
        """
        for slot, row, token in zip(slots, logits, next_tokens(backend, slots, logits).tolist(), strict=True):
            if token < 0:
                self._fail(slot)
                continue
            index, wanted = slot.admitted.slot, slot.admitted.sampling.logprobs
            if wanted >= 0:
                self._logprobs.add(index, slot.length, row, token, wanted)
            self._slots.append(index)
            self._tokens.append(token)
            if slot.append_token(token):
                self._stopped.append(index)

    @np.errstate(all="ignore")
    def add_prompt_logprobs(self, slot: Slot, position: int, logits: LogitRows) -> None:
        """Adds the logprobs of the prompt tokens from `position` on, whose logits are the rows of `logits`."""
        if not finite_rows(logits).all():
            self._fail(slot)
            return
        for offset, row in enumerate(logits):
            token = int(slot.tokens[position + offset])
            self._prompt_logprobs.add(
                slot.admitted.slot, position + offset, row, token, slot.admitted.sampling.prompt_logprobs
            )

    @np.errstate(all="ignore")
    def result(self, plan: int, *, update_us: int, forward_us: int, sample_us: int) -> StepResult:
        """The message that answers `plan`."""
        return StepResult(
            plan=plan,
            slots=int32_column(self._slots),
            counts=int32_column([1] * len(self._slots)),
            tokens=int32_column(self._tokens),
            stopped=int32_column(self._stopped),
            failed=int32_column(self._failed),
            logprobs=self._logprobs.rows(),
            prompt_logprobs=self._prompt_logprobs.rows(),
            update_us=update_us,
            forward_us=forward_us,
            sample_us=sample_us,
            step_us=update_us + forward_us + sample_us,
        )

    def _fail(self, slot: Slot) -> None:
        if not slot.ended:
            slot.ended = True
            self._failed.append(slot.admitted.slot)


def prompt_positions(work: Work) -> range:
    """The prompt positions whose logits this work computes, where their logprobs are wanted.

    The logits at p - 1 tell the logprob of p; that of position 0 nobody can tell.
    """
    if work.slot.admitted.sampling.prompt_logprobs < 0:
        return range(0)
    return range(work.start + 1, min(work.end + 1, work.slot.admitted.prompt_length))
