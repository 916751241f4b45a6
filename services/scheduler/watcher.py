"""Someone who watches step records: sees the newest one as often as it likes, and never holds anything up."""

import asyncio
from collections.abc import Awaitable, Callable

from services.wire import codec
from services.wire.scheduling import StepRecord

DEFAULT_RECORDS_PER_SECOND = 20
MAX_RECORDS_PER_SECOND = 1000


class Watcher:
    """One Watch call; lives in the event loop. Records that come faster than it reads are left out."""

    def __init__(self, max_records_per_second: int) -> None:
        rate = min(max_records_per_second or DEFAULT_RECORDS_PER_SECOND, MAX_RECORDS_PER_SECOND)
        self._pause_s = 1 / rate
        self._newest: StepRecord | None = None
        self._filled = asyncio.Event()
        self._ended = False

    def show(self, record: StepRecord) -> None:
        self._newest = record
        self._filled.set()

    def end(self) -> None:
        self._ended = True
        self._filled.set()

    async def write_to(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Writes records at the agreed rate until the end."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            if self._newest is not None:
                record, self._newest = self._newest, None
                await write(codec.encode(record))
            if self._ended and self._newest is None:
                return
            await asyncio.sleep(self._pause_s)
