"""What waits to be written to one router: nothing is dropped, and what cannot wait any longer closes the stream."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from services.runtime.errors import Refusal, exhausted


class RouterStream:
    """The outgoing half of one Attach stream; lives in the event loop."""

    def __init__(self, router: int, backlog_limit_bytes: int) -> None:
        self.router = router
        self._backlog_limit_bytes = backlog_limit_bytes
        self._messages: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._load: bytes | None = None
        self._filled = asyncio.Event()
        self._greeted = False
        self._ending = False
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails with the Refusal that ends the stream at once."""

    def push(self, message: bytes) -> None:
        """One more message for the router; one too many breaks the stream."""
        if self.broken.done():
            return
        self._greeted = True
        self._messages.append(message)
        self._backlog_bytes += len(message)
        if self._backlog_bytes > self._backlog_limit_bytes:
            self.refuse(exhausted("the router does not read what it is sent", "ROUTER_TOO_SLOW", None))
        self._filled.set()

    def set_load(self, load: bytes) -> None:
        """The newest Load: it takes the place of one that has not been written. None comes before the hello."""
        if self._greeted:
            self._load = load
            self._filled.set()

    def refuse(self, refusal: Refusal) -> None:
        """Ends the stream at once with a status."""
        if not self.broken.done():
            self._messages.clear()
            self.broken.set_exception(refusal)

    def end(self) -> None:
        """Ends the stream when all has been written."""
        self._ending = True
        self._filled.set()

    async def write_to(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Writes messages in order, a new Load before the next of them, until the end."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._messages:
                message = self._messages.popleft()
                await write(message)
                self._backlog_bytes -= len(message)
                await self._write_load(write)
            await self._write_load(write)
            if self._ending and not self._messages:
                return

    async def _write_load(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        if self._load is not None:
            load, self._load = self._load, None
            await write(load)
