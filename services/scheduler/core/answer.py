"""An answer: a step result, checked against the plan that it answers and freed of sequences that have left since."""

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.scheduler.core.columns import Slots
from services.scheduler.core.flight import Flight
from services.scheduler.core.illegal_event import ExecutorBroke
from services.scheduler.core.running import Running
from services.wire.execution import LogprobRows, StepResult
from services.wire.message import Int32Column


@dataclass(frozen=True, slots=True)
class Answer:
    """One token for each of `slots`; all of them, and those stopped and failed, have the sequence that the plan meant."""

    slots: Slots
    tokens: Int32Column
    stopped: list[int]
    failed: list[int]


class AnswerReader:
    """Reads results. In the steady state, the same slots step after step, it only compares their bytes."""

    def __init__(self, running: Running, vocab_size: int) -> None:
        self._running = running
        self._vocab_size = vocab_size
        self._draws: Slots | None = None
        self._columns = b"", b""
        self._slots: Slots | None = None

    def read(self, result: StepResult, flight: Flight | None) -> Answer:
        """Raises `ExecutorBroke` for a result that is no answer to the oldest unanswered plan."""
        if flight is None or result.plan != flight.plan:
            raise ExecutorBroke(f"plan {result.plan} was answered, {flight.plan if flight else 'none'} was due")
        tokens = result.tokens
        if tokens.size and _largest(tokens.view(np.uint32)) >= self._vocab_size:
            raise ExecutorBroke("a token is outside the model's vocabulary")
        for rows in (result.logprobs, result.prompt_logprobs):
            self._check_rows(rows)
        slots = self._same_as_before(result, flight)
        if slots is None:
            slots, tokens = self._match(_without_empty_rows(result), flight)
        current = set(slots.tolist()) if result.stopped.size else set()
        stopped = [slot for slot in result.stopped.tolist() if slot in current]
        return Answer(slots, tokens, stopped, self._failed(result, flight))

    def _same_as_before(self, result: StepResult, flight: Flight) -> Slots | None:
        same = (
            flight.draws is self._draws
            and flight.num_left == self._running.num_left
            and not result.failed.size
            and _columns(result) == self._columns
        )
        return self._slots if same else None

    def _match(self, result: StepResult, flight: Flight) -> tuple[Slots, Int32Column]:
        slots = result.slots.astype(np.intp)
        if len(np.unique(slots)) != len(slots) or not np.isin(slots, flight.draws).all():
            raise ExecutorBroke(f"plan {flight.plan}: a slot drew a token that was not to")
        current = flight.draws[self._running.columns.generation[flight.draws] == flight.generations]
        missing = np.setdiff1d(current, slots)
        if not np.isin(missing, result.failed).all():
            raise ExecutorBroke(f"plan {flight.plan}: a slot drew no token")
        alive = np.isin(slots, current)
        if alive.all():
            self._draws, self._columns, self._slots = flight.draws, _columns(result), slots
            return slots, result.tokens
        return slots[alive], result.tokens[alive]

    def _failed(self, result: StepResult, flight: Flight) -> list[int]:
        if not result.failed.size:
            return []
        current = set(flight.draws[self._running.columns.generation[flight.draws] == flight.generations].tolist())
        current |= {chunk.slot for chunk in flight.chunks if chunk.is_current}
        return [slot for slot in dict.fromkeys(result.failed.tolist()) if slot in current]

    def _check_rows(self, rows: LogprobRows | None) -> None:
        if rows is None or not rows.slots.size:
            return
        if int(rows.slots.min()) < 0 or int(rows.slots.max()) >= self._running.num_slots:
            raise ExecutorBroke("logprobs of a slot that does not exist")


def _largest(values: npt.NDArray[np.uint32]) -> int:
    """Of at least one: numpy takes a microsecond to begin, Python one for a hundred."""
    return max(values.tolist()) if values.size < 100 else int(values.max())


def _columns(result: StepResult) -> tuple[bytes, bytes]:
    """Who drew, and how many tokens."""
    return result.slots.tobytes(), result.counts.tobytes()


def _without_empty_rows(result: StepResult) -> StepResult:
    """The result with only the slots that drew a token."""
    if (result.counts == 1).all():
        return result
    drew: npt.NDArray[np.bool_] = result.counts > 0
    if (result.counts[drew] != 1).any():
        raise ExecutorBroke("a slot drew more than one token")
    return StepResult(
        plan=result.plan,
        slots=result.slots[drew],
        counts=result.counts[drew],
        tokens=result.tokens,
        stopped=result.stopped,
        failed=result.failed,
        logprobs=result.logprobs,
        prompt_logprobs=result.prompt_logprobs,
    )


def select_rows(rows: LogprobRows, keep: npt.NDArray[np.bool_], names: Int32Column) -> LogprobRows | None:
    """The rows where `keep`, with `names[slot]` in place of the slot; None if there are none."""
    if not keep.any():
        return None
    flat = np.repeat(keep, rows.top_counts)
    return LogprobRows(
        slots=names[rows.slots[keep]],
        positions=rows.positions[keep],
        chosen=rows.chosen[keep],
        ranks=rows.ranks[keep],
        top_counts=rows.top_counts[keep],
        top_ids=rows.top_ids[flat],
        top_logprobs=rows.top_logprobs[flat],
    )


def is_among(slots: Int32Column, members: Rows[int] | Slots, num_slots: int) -> npt.NDArray[np.bool_]:
    """For each of `slots`, whether it is one of `members`."""
    mask = np.zeros(num_slots, np.bool_)
    mask[members] = True
    return mask[slots]
