"""The intake's books: who is live, and when nobody is."""

import asyncio

import grpc
import pytest
from headway.v1 import inference_pb2 as api

from services.router.intake import Intake
from services.router.settings import RouterSettings
from services.runtime.errors import Refusal
from tests.unit.router.orders import FakeFleet


def opened(intake: Intake, **fields):
    return intake.open(api.GenerateRequest(**fields), None, lambda: None)


async def test_the_intake_is_idle_when_the_last_request_is_closed():
    """Requests without an id are told apart, a refused one leaves nothing, and only the last close makes it idle."""
    intake = Intake(RouterSettings(max_live_requests=2), FakeFleet())
    first, second = opened(intake), opened(intake)
    assert first.request_id != second.request_id
    with pytest.raises(Refusal) as caught:
        opened(intake)
    assert caught.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    idle = asyncio.ensure_future(intake.idle())
    intake.close(first)
    intake.close(first)
    await asyncio.sleep(0)
    assert (intake.num_live, idle.done()) == (1, False)
    intake.close(second)
    await asyncio.wait_for(idle, 5)
    assert opened(intake, request_id=first.request_id).request_id == first.request_id


async def test_the_nearer_of_two_deadlines_counts():
    """A request has a deadline of its own and its call's; one that has passed already is never admitted."""
    intake = Intake(RouterSettings(), FakeFleet())
    now = asyncio.get_running_loop().time()
    near = intake.open(api.GenerateRequest(deadline_s=60), 5.0, lambda: None)
    assert now + 4 < near.deadline_at < now + 6
    intake.close(near)
    with pytest.raises(Refusal) as caught:
        intake.open(api.GenerateRequest(deadline_s=60), -1.0, lambda: None)
    assert caught.value.code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert intake.num_live == 0
