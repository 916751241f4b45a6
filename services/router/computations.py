"""Computations: the sequences that one scheduler computes for this router, by handle, and what it says of each."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from services.router.logprob_rows import LogprobRow, rows_by_handle
from services.runtime.errors import Refusal, internal
from services.runtime.logging import get_logger
from services.wire.scheduling import Finished, Rejected, SchedulerHello, StepTokens, Submit

_MAX_HANDLE = 2**31 - 1  # handles travel in int32 columns

log = get_logger(__name__)


class Computed(Protocol):
    """What the router has computed by a scheduler; hears what becomes of it, each call in the event loop."""

    def submission(self, handle: int, hello: SchedulerHello) -> Submit: ...
    def take_tokens(self, token_ids: Sequence[int], rows: Sequence[LogprobRow]) -> None: ...
    def take_prompt_rows(self, rows: Sequence[LogprobRow]) -> None: ...
    def take_finished(self, finished: Finished) -> None: ...
    def take_rejected(self, rejected: Rejected) -> None: ...
    def lost(self) -> None: ...
    def fail(self, refusal: Refusal) -> None: ...


class Computations:
    """What is said of a handle that is not here any more has crossed with its stop or cancel, and is passed over."""

    def __init__(self) -> None:
        self._by_handle: dict[int, Computed] = {}
        self._last_handle = 0

    def __len__(self) -> int:
        return len(self._by_handle)

    def begin(self, computed: Computed, submit: Callable[[Computed, int], None]) -> int | None:
        """The handle under which `submit` has sent it; None: it could not be sent, and has been failed."""
        handle = self._mint_handle()
        if not _tell(computed, submit, computed, handle):
            return None
        self._by_handle[handle] = computed
        return handle

    def drop(self, handle: int) -> bool:
        """Nothing more is heard of it. Whether it was here."""
        return self._by_handle.pop(handle, None) is not None

    def take_all(self) -> list[Computed]:
        """All of them; none is left."""
        orphans, self._by_handle = list(self._by_handle.values()), {}
        return orphans

    def hear_tokens(self, step: StepTokens) -> None:
        for handle, rows in rows_by_handle(step.prompt_logprobs).items():
            computed = self._by_handle.get(handle)
            if computed is not None:
                _tell(computed, computed.take_prompt_rows, rows)
        rows_of = rows_by_handle(step.logprobs)
        token_ids = step.tokens.tolist()
        start = 0
        for handle, count in zip(step.handles.tolist(), step.counts.tolist(), strict=True):
            computed = self._by_handle.get(handle)
            if computed is not None:
                _tell(computed, computed.take_tokens, token_ids[start : start + count], rows_of.get(handle, ()))
            start += count

    def hear_finished(self, finished: Finished) -> None:
        computed = self._by_handle.pop(finished.handle, None)
        if computed is not None:
            _tell(computed, computed.take_finished, finished)

    def hear_rejected(self, rejected: Rejected) -> None:
        computed = self._by_handle.pop(rejected.handle, None)
        if computed is not None:
            _tell(computed, computed.take_rejected, rejected)

    def _mint_handle(self) -> int:
        while True:
            self._last_handle = self._last_handle % _MAX_HANDLE + 1
            if self._last_handle not in self._by_handle:
                return self._last_handle


def tell_lost(orphans: Sequence[Computed]) -> None:
    """Their scheduler, or the stream to it, is gone."""
    for computed in orphans:
        _tell(computed, computed.lost)


def _tell(computed: Computed, tell: Callable[..., None], *arguments: Any) -> bool:
    """Whether it went well. A fault in the handling of one sequence ends that sequence, not the link."""
    try:
        tell(*arguments)
    except Exception:
        log.exception("a sequence could not be told, or told of")
        computed.fail(internal())
        return False
    return True
