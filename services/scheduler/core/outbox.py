"""The outbox: messages to routers, in order, until the service takes them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.scheduler.core.answer import Answer, is_among, select_rows
from services.scheduler.core.columns import Columns, Slots
from services.scheduler.core.flight import Chunk
from services.wire.execution import LogprobRows, StepResult
from services.wire.message import Int32Column, int32_column, no_ints
from services.wire.scheduling import Finished, Rejected, SchedulerHello, StepTokens, ToRouter

Part = tuple[int, Slots | None, Int32Column, Int32Column]
"""A router's share of a step's tokens: (router, rows or None for all, handles, counts)."""


class Outbox:
    """One StepTokens for each router and step, tokens before last words."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, ToRouter]] = []
        self._slots: Slots | None = None
        self._parts: list[Part] = []

    def take(self) -> list[tuple[int, ToRouter]]:
        messages, self._messages = self._messages, []
        return messages

    def put(self, router: int, body: SchedulerHello | StepTokens | Finished | Rejected) -> None:
        self._messages.append((router, ToRouter(body=body)))

    def forget(self, router: int) -> None:
        """The router is gone: what it has not been given is dropped."""
        self._messages = [message for message in self._messages if message[0] != router]

    def put_tokens(self, step: int, answer: Answer, columns: Columns) -> None:
        """A step without logprobs. While the slots are the same array, so are the routers' shares of it."""
        if answer.slots is not self._slots:
            self._slots, self._parts = answer.slots, _parts(answer.slots, columns)
        for router, rows, handles, counts in self._parts:
            tokens = answer.tokens if rows is None else answer.tokens[rows]
            self.put(router, StepTokens(step=step, handles=handles, counts=counts, tokens=tokens))

    def put_tokens_and_logprobs(
        self, step: int, answer: Answer, columns: Columns, result: StepResult, chunks: Iterable[Chunk]
    ) -> None:
        """The same with logprobs. A prompt's row that has been sent before, or is not asked for, is left out."""
        drawn = _Rows.of(result.logprobs, lambda rows: is_among(rows.slots, answer.slots, len(columns.known)))
        prompt = _Rows.of(result.prompt_logprobs, lambda rows: _unsent(rows, chunks))
        parts = {part[0]: part for part in _parts(answer.slots, columns)}
        for router in sorted({*parts, *prompt.routers(columns)}):
            _, rows, handles, counts = parts.get(router, (router, None, no_ints(), no_ints()))
            tokens = no_ints() if router not in parts else answer.tokens if rows is None else answer.tokens[rows]
            body = StepTokens(
                step=step,
                handles=handles,
                counts=counts,
                tokens=tokens,
                logprobs=drawn.for_router(router, columns),
                prompt_logprobs=prompt.for_router(router, columns),
            )
            self.put(router, body)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Logprob rows and which of them are to be sent."""

    rows: LogprobRows
    keep: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, rows: LogprobRows | None, choose: Callable[[LogprobRows], npt.NDArray[np.bool_]]) -> "_Rows":
        rows = rows or LogprobRows()
        return cls(rows, choose(rows))

    def routers(self, columns: Columns) -> list[int]:
        return [int(router) for router in np.unique(columns.router[self.rows.slots[self.keep]])]

    def for_router(self, router: int, columns: Columns) -> LogprobRows | None:
        return select_rows(self.rows, self.keep & (columns.router[self.rows.slots] == router), columns.handle)


def _parts(slots: Slots, columns: Columns) -> list[Part]:
    routers = columns.router[slots]
    parts: list[Part] = []
    for router in np.unique(routers).tolist():
        rows = np.flatnonzero(routers == router)
        whole = len(rows) == len(slots)
        handles = int32_column(columns.handle[slots[rows]])
        parts.append((router, None if whole else rows, handles, int32_column(np.ones(len(rows), np.int32))))
    return parts


def _unsent(rows: LogprobRows, chunks: Iterable[Chunk]) -> npt.NDArray[np.bool_]:
    keep = np.zeros(len(rows.slots), np.bool_)
    for chunk in chunks:
        sequence = chunk.sequence
        if chunk.is_current and sequence.needs_prompt_rows:
            mine = rows.slots == chunk.slot
            mine &= (rows.positions >= sequence.prompt_rows_sent) & (rows.positions < sequence.submit.prompt_length)
            if mine.any():
                sequence.prompt_rows_sent = int(rows.positions[mine].max()) + 1
                keep |= mine
    return keep
