"""Attempts of the typed client: what is tried again, when, and how often."""

import time

import grpc
import pytest
from headway.client import Client, DeadlineExceeded, Overloaded, Unavailable

from tests.support.fake_inference import FakeInference, answer, overloaded, refuse, sleep_forever, unavailable_for
from tests.unit.client.asking import FAST

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def test_an_unavailable_server_is_tried_again_before_the_first_message():
    """UNAVAILABLE before anything came: the same request is sent again."""
    with FakeInference(refuse(UNAVAILABLE), refuse(UNAVAILABLE), answer("ok")) as server:
        with Client(server.address, retry=FAST) as client:
            assert "".join(each.text for each in client.generate("hi")) == "ok"
        assert server.requests[0] == server.requests[1] == server.requests[2]


def test_a_pause_that_an_unavailable_server_names_is_kept():
    """UNAVAILABLE with RetryInfo is not tried again sooner than it says."""
    with FakeInference(unavailable_for(0.3), answer("ok")) as server, Client(server.address, retry=FAST) as client:
        began = time.monotonic()
        assert "".join(each.text for each in client.generate("hi")) == "ok"
        assert time.monotonic() - began >= 0.3


def test_attempts_are_bounded():
    """A server that stays away is given up after the policy's number of attempts."""
    with FakeInference(refuse(UNAVAILABLE)) as server, Client(server.address, retry=FAST) as client:
        with pytest.raises(Unavailable):
            client.complete("hi")
        assert len(server.requests) == FAST.max_attempts


def test_a_full_queue_is_tried_again_after_the_servers_pause():
    """RESOURCE_EXHAUSTED with RetryInfo is waited out, and no less than the server asked."""
    with FakeInference(overloaded(0.3), answer("ok")) as server, Client(server.address, retry=FAST) as client:
        began = time.monotonic()
        assert "".join(each.text for each in client.generate("hi", timeout_s=30)) == "ok"
        assert time.monotonic() - began >= 0.3


def test_a_pause_that_the_deadline_leaves_no_room_for_is_told_at_once():
    """When the server's pause is longer than what is left, Overloaded is raised without waiting."""
    with FakeInference(overloaded(60)) as server, Client(server.address, retry=FAST) as client:
        began = time.monotonic()
        with pytest.raises(Overloaded) as caught:
            list(client.generate("hi", timeout_s=20))
        assert caught.value.retry_after_s == 60
        assert time.monotonic() - began < 10


def test_the_deadline_covers_all_attempts():
    """`timeout_s` becomes the call's deadline, and a later attempt has only what is left."""
    with FakeInference(overloaded(0.2), sleep_forever) as server, Client(server.address) as client:
        with pytest.raises(DeadlineExceeded):
            list(client.generate("hi", timeout_s=1.0))
        first, second = server.timeouts_s
        assert first < 1.1
        assert second < first - 0.15
