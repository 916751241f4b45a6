"""Places: how many calls of one kind may be open at once, so that none crowds out the others, health checks above all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from services.runtime.errors import exhausted

_FULL_PAUSE_S = 1.0


class Places(Protocol):
    """The places of one kind of call."""

    def taken(self) -> AbstractAsyncContextManager[None]:
        """Holds a place. Raises `Refusal` where the call is not to go on."""


class CallPlaces:
    """For calls that last: when all places are taken, the next one is refused."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._num_taken = 0

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        if self._num_taken >= self._limit:
            message = f"{self._limit} calls of this kind are open, which is all that are allowed; try again later"
            raise exhausted(message, "TOO_MANY_CALLS", _FULL_PAUSE_S)
        self._num_taken += 1
        try:
            yield
        finally:
            self._num_taken -= 1


class YieldingPlaces:
    """For calls that are answered at once: when all places are taken, the call that is open longest gives way.

    Its client has sent nothing, or reads nothing: one that means its question is answered long before.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[asyncio.Timeout, None] = {}  # oldest first

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        if len(self._open) >= self._limit:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        async with self._giving_way() as place:
            self._open[place] = None
            try:
                yield
            finally:
                self._open.pop(place, None)

    @asynccontextmanager
    async def _giving_way(self) -> AsyncIterator[asyncio.Timeout]:
        place = asyncio.timeout(None)
        try:
            async with place:
                yield place
        except TimeoutError:
            if not place.expired():
                raise
            message = "the call was open, its question unasked or its answer unread, while many others came; ask again"
            raise exhausted(message, "IDLE_CALL", _FULL_PAUSE_S) from None
