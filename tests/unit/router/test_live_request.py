"""A live request: its answers told apart, its ends, and what is given up when it ends early."""

import asyncio

import grpc
import pytest
from headway.v1 import inference_pb2 as api

from services.router.live_request import LiveRequest
from services.runtime.errors import Refusal, internal
from services.wire.scheduling import Bill, FinishCause, Finished
from tests.unit.router.orders import FakeFleet, FakeLink, answer


def live_request(num_answers=0, **fields) -> LiveRequest:
    fields = {"deadline_at": None, "arrived_at": 0.0, "wake": lambda: None, **fields}
    live = LiveRequest(request_id="mine", tenant="", **fields)
    if num_answers:
        fleet = FakeFleet(FakeLink())
        answers = [
            answer(fleet, index=index, n=num_answers, changed=live.answer_changed) for index in range(num_answers)
        ]
        live.begin(api.Started(request_id="mine"), answers)
    return live


def end(made) -> None:
    made.take_finished(Finished(handle=1, cause=FinishCause.LENGTH, bill=Bill()))


async def test_what_is_taken_is_told_once():
    """The start comes with the first message alone, an end with its answer's last delta, and nothing a second time."""
    live = live_request(2)
    first, second = live.answers
    assert list(live.take()) == []
    second.take_tokens([98], ())
    (message,) = live.take()
    assert (message.started.request_id, message.delta.index, message.delta.text) == ("mine", 1, "b")
    first.take_tokens([97], ())
    end(first)
    (message,) = live.take()
    assert (message.HasField("started"), message.delta.text, message.finished.index) == (False, "a", 0)
    assert not live.ended
    end(second)
    assert live.ended
    assert live.has_pending
    (message,) = live.take()
    assert (message.HasField("delta"), message.finished.index) == (False, 1)
    assert not live.has_pending
    assert list(live.take()) == []


async def test_one_refused_answer_ends_them_all():
    """A request of several answers is refused as a whole, with the first refusal."""
    wakes = []
    live = live_request(3, wake=lambda: wakes.append(1))
    refusal = internal()
    live.answers[1].fail(refusal)
    assert [made.refusal for made in live.answers] == [refusal] * 3
    assert (live.refusal, live.ended) == (refusal, True)
    live.fail(Refusal(grpc.StatusCode.UNKNOWN, "later"))
    assert live.refusal is refusal
    assert wakes


async def test_a_failure_gives_up_what_is_awaited():
    """Work on the prompt is not finished for a request that has ended meanwhile; its refusal is raised in its place."""
    live = live_request()
    refusal = internal()
    asyncio.get_running_loop().call_soon(live.fail, refusal)
    with pytest.raises(Refusal) as caught:
        async with asyncio.timeout(10), live.preparing():
            await asyncio.Event().wait()
    assert caught.value is refusal


async def test_a_timeout_of_another_is_not_taken_for_the_requests_end():
    """A TimeoutError from inside, while the request lives, stays what it is."""
    live = live_request()
    with pytest.raises(TimeoutError):
        async with live.preparing():
            raise TimeoutError
    assert not live.ended


async def test_an_abort_before_the_beginning_is_a_refusal():
    """There is no answer yet that could end ABORTED with what it has."""
    live = live_request()
    live.abort()
    assert live.refusal.code == grpc.StatusCode.ABORTED
