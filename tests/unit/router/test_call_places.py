"""Places: counted, given back, and refused with a time to come back."""

import grpc
import pytest

from services.router.call_places import CallPlaces
from services.runtime.errors import Refusal


def test_a_place_is_given_back_however_a_call_ends():
    """When all are taken a call is refused in words; a call that fails leaves its place."""
    places = CallPlaces(1)
    with places.taken(), pytest.raises(Refusal) as caught, places.taken():
        pass
    assert caught.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(caught.value.details) == 2
    with pytest.raises(ZeroDivisionError), places.taken():
        raise ZeroDivisionError
    with places.taken():
        pass
