"""Slow readers."""

import asyncio

import grpc
import pytest

from services.router.slow_readers import SlowReaders
from services.runtime.errors import Refusal


class Stream:
    """Takes a message when its gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.taken: list[bytes] = []

    async def write(self, message: bytes) -> None:
        await self.gate.wait()
        self.taken.append(message)


async def test_a_write_that_blocks_too_long_is_refused():
    """Past the limit the write raises, and the task is not left cancelled."""
    readers = SlowReaders(0.1)
    watch = asyncio.ensure_future(readers.run())
    with pytest.raises(Refusal) as caught:
        await readers.write(Stream(), b"x")
    assert caught.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0
    watch.cancel()


async def test_a_reader_that_takes_in_time_is_left_alone():
    """A write within the limit goes through; the time counts anew for each."""
    readers = SlowReaders(0.4)
    watch = asyncio.ensure_future(readers.run())
    stream = Stream()
    for message in (b"1", b"2", b"3"):
        stream.gate.clear()
        asyncio.get_running_loop().call_later(0.2, stream.gate.set)
        await readers.write(stream, message)
    assert stream.taken == [b"1", b"2", b"3"]
    watch.cancel()


async def test_a_cancellation_by_others_passes():
    """A task that is cancelled because its client is gone stays cancelled."""
    readers = SlowReaders(10)
    task = asyncio.ensure_future(readers.write(Stream(), b"x"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not readers._blocked_since
