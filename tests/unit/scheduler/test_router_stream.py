"""The outgoing half of an Attach stream."""

import asyncio

import grpc
import pytest

from services.runtime.errors import Refusal
from services.scheduler.router_stream import RouterStream


class Wire:
    """Takes what is written; while shut, a write waits."""

    def __init__(self):
        self.written = []
        self.open = asyncio.Event()
        self.open.set()

    async def write(self, data):
        await self.open.wait()
        self.written.append(data)


async def test_messages_are_written_in_order_until_the_end():
    """All that was pushed before the end is written, then writing returns."""
    stream, wire = RouterStream(1, 1000), Wire()
    for number in range(5):
        stream.push(b"%d" % number)
    stream.end()
    await stream.write_to(wire.write)
    assert wire.written == [b"0", b"1", b"2", b"3", b"4"]


async def test_loads_replace_each_other_and_never_pile_up():
    """A router that reads slowly gets the newest Load, not all of them, and before the messages behind it."""
    stream, wire = RouterStream(1, 1000), Wire()
    wire.open.clear()
    stream.push(b"hello")
    writer = asyncio.create_task(stream.write_to(wire.write))
    await asyncio.sleep(0)
    stream.push(b"tokens")
    for number in range(100):
        stream.set_load(b"load %d" % number)
    wire.open.set()
    stream.end()
    await writer
    assert wire.written == [b"hello", b"load 99", b"tokens"]


async def test_no_load_comes_before_the_hello():
    """The first message of a stream is the scheduler's hello."""
    stream, wire = RouterStream(1, 1000), Wire()
    stream.set_load(b"load")
    stream.push(b"hello")
    stream.end()
    await stream.write_to(wire.write)
    assert wire.written == [b"hello"]


async def test_a_backlog_over_its_bound_breaks_the_stream():
    """The message that is too much ends the stream with a reason; nothing is dropped before, nothing kept after."""
    stream = RouterStream(1, 100)
    stream.push(b"x" * 60)
    assert not stream.broken.done()
    stream.push(b"x" * 60)
    with pytest.raises(Refusal) as caught:
        stream.broken.result()
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    stream.push(b"x")
    assert len(stream._messages) == 0


async def test_what_is_written_no_longer_counts():
    """A router that reads may receive any amount over time."""
    stream, wire = RouterStream(1, 100), Wire()
    writer = asyncio.create_task(stream.write_to(wire.write))
    for _ in range(50):
        stream.push(b"x" * 60)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    stream.end()
    await writer
    assert len(wire.written) == 50
    assert not stream.broken.done()


async def test_a_refusal_ends_it_once():
    """The first refusal counts."""
    stream = RouterStream(1, 100)
    first = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "first")
    stream.refuse(first)
    stream.refuse(Refusal(grpc.StatusCode.INTERNAL, "second"))
    assert stream.broken.exception() is first
