"""Places: counted, given back, and refused or given up when there are no more."""

import asyncio

import grpc
import pytest

from services.router.call_places import CallPlaces, YieldingPlaces
from services.runtime.errors import Refusal


async def test_a_place_is_given_back_however_a_call_ends():
    """When all are taken a call is refused in words; a call that fails leaves its place."""
    places = CallPlaces(1)
    async with places.taken():
        with pytest.raises(Refusal) as caught:
            async with places.taken():
                pass
    assert caught.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(caught.value.details) == 2
    with pytest.raises(ZeroDivisionError):
        async with places.taken():
            raise ZeroDivisionError
    async with places.taken():
        pass


async def hold(places, seconds=60.0) -> str:
    """How a call ends that does nothing but hold its place."""
    try:
        async with places.taken():
            await asyncio.sleep(seconds)
    except Refusal as refusal:
        return refusal.details[0].reason
    return "ended by itself"


async def test_the_call_that_is_open_longest_gives_way_to_a_new_one():
    """With two places, the third call ends the first and the fourth the second; who is answered at once is untouched."""
    places = YieldingPlaces(2)
    held = []
    for _ in range(4):
        held.append(asyncio.ensure_future(hold(places)))
        await asyncio.sleep(0.01)
    assert [call.done() for call in held] == [True, True, False, False]
    assert [call.result() for call in held[:2]] == ["IDLE_CALL", "IDLE_CALL"]
    assert await hold(places, seconds=0) == "ended by itself"
    await asyncio.sleep(0.01)
    assert [call.done() for call in held] == [True, True, True, False]
    held[3].cancel()
    await asyncio.gather(*held, return_exceptions=True)
    assert places._open == {}


async def test_a_call_that_fails_leaves_its_yielding_place_too():
    """What a call raises, its own TimeoutError and a cancellation among it, comes out as it is."""
    places = YieldingPlaces(1)
    for failure in (ZeroDivisionError, TimeoutError, asyncio.CancelledError):
        with pytest.raises(failure):
            async with places.taken():
                raise failure
    assert places._open == {}
