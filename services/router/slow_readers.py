"""Slow readers: finds the calls whose client takes nothing, and ends them."""

import asyncio
from typing import Protocol

import grpc

from services.runtime.errors import Refusal, error_info


class Writable(Protocol):
    async def write(self, message: bytes) -> None: ...


class SlowReaders:
    """Watches all writes with one timer, so that a write costs no timer of its own."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._blocked_since: dict[asyncio.Task[None], float] = {}
        self._overdue: set[asyncio.Task[None]] = set()

    async def write(self, stream: Writable, message: bytes) -> None:
        """Writes `message`; raises `Refusal` when the client has taken nothing for the limit."""
        task = asyncio.current_task()
        assert task is not None
        self._blocked_since[task] = asyncio.get_running_loop().time()
        try:
            await stream.write(message)
        except asyncio.CancelledError:
            if task not in self._overdue or task.uncancel() > 0:
                raise  # the client is gone, or the server stops
            raise self._too_slow() from None
        finally:
            self._overdue.discard(task)
            del self._blocked_since[task]

    async def run(self) -> None:
        """Looks for overdue writes until cancelled."""
        while True:
            await asyncio.sleep(min(self._limit_s / 4, 1.0))
            oldest = asyncio.get_running_loop().time() - self._limit_s
            for task, since in self._blocked_since.items():
                if since < oldest and task not in self._overdue:
                    self._overdue.add(task)
                    task.cancel()

    def _too_slow(self) -> Refusal:
        message = f"the stream was not read for {self._limit_s:g} s and is ended; read answers as they come"
        return Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, message, error_info("SLOW_READER"))
