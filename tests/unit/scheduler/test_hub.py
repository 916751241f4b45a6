"""The hub between the threads."""

import asyncio

import grpc

from services.runtime.errors import Refusal
from services.scheduler.hub import STALE_S, Hub
from services.wire import codec
from services.wire.scheduling import (
    GetModelCardResponse,
    Load,
    SchedulerHello,
    StepRecord,
    ToRouter,
)


def _hub():
    return Hub(asyncio.get_running_loop(), 10_000)


async def _written(stream):
    """All that waits in a stream."""
    stream.end()
    written = []

    async def write(data):
        written.append(codec.decode(ToRouter, data).body)

    await stream.write_to(write)
    return written


async def test_messages_reach_their_router_alone():
    """Each message goes to its own stream, in order; one for a router that is gone goes nowhere."""
    hub = _hub()
    one, two = hub.open_stream(), hub.open_stream()
    assert one.router != two.router
    hello = SchedulerHello()
    hub.deliver([(one.router, ToRouter(body=hello)), (99, ToRouter(body=hello)), (two.router, ToRouter(body=hello))])
    hub.deliver([(one.router, ToRouter(body=Load(running=3)))])
    await asyncio.sleep(0)
    assert await _written(one) == [hello, Load(running=3)]
    assert await _written(two) == [hello]


async def test_router_numbers_are_never_used_again():
    """A stream that comes after another has gone has a number of its own."""
    hub = _hub()
    first = hub.open_stream()
    hub.close_stream(first)
    assert hub.open_stream().router != first.router


async def test_readiness_is_the_cores_word_while_it_is_fresh(monkeypatch):
    """Ready means: the core said so, and not long ago, and no drain has begun."""
    hub = _hub()
    assert not hub.is_ready()
    hub.tell_load(Load(making_progress=True))
    await asyncio.sleep(0)
    assert hub.is_ready()
    assert hub.ready_changed.is_set()
    loop = asyncio.get_running_loop()
    now = loop.time()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", lambda: now + STALE_S + 0.1)
        assert not hub.is_ready(), "a core that does not speak is not ready"
    hub.tell_load(Load(making_progress=False))
    await asyncio.sleep(0)
    assert not hub.is_ready()
    hub.tell_load(Load(making_progress=True))
    hub.tell_draining()
    await asyncio.sleep(0)
    assert not hub.is_ready()


async def test_records_are_made_for_watchers_alone():
    """Without a watcher the core's thread is told to make none; with one it sees them."""
    hub = _hub()
    assert not hub.is_watched
    watcher = hub.open_watcher(1000)
    assert hub.is_watched
    hub.tell_record(StepRecord(step=4, at_us=0, token_budget=1))
    await asyncio.sleep(0)
    assert watcher._newest.step == 4
    hub.close_watcher(watcher)
    assert not hub.is_watched


async def test_a_refused_router_hears_why():
    """A refusal from the core's thread breaks that router's stream alone."""
    hub = _hub()
    bad, good = hub.open_stream(), hub.open_stream()
    hub.refuse(bad.router, Refusal(grpc.StatusCode.INVALID_ARGUMENT, "why"))
    hub.refuse(12345, Refusal(grpc.StatusCode.INVALID_ARGUMENT, "nobody"))
    await asyncio.sleep(0)
    assert str(bad.broken.exception()) == "why"
    assert not good.broken.done()


async def test_the_card_is_the_newest():
    """What GetModelCard answers is what the core said last."""
    hub = _hub()
    assert codec.decode(GetModelCardResponse, hub.card).ready is False
    hub.tell_card(GetModelCardResponse(ready=True))
    await asyncio.sleep(0)
    assert codec.decode(GetModelCardResponse, hub.card).ready is True
