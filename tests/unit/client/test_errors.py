"""Errors of the typed client: which one a call ends with, and what it says."""

import grpc
import pytest
from headway.client import (
    Aborted,
    AlreadyExists,
    Client,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Overloaded,
    ServerFault,
    Unavailable,
    Unsupported,
    Violation,
)

from tests.support.fake_inference import FakeInference, invalid, refuse, sleep_forever
from tests.unit.client.asking import FAST


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.NOT_FOUND, NotFound),
        (grpc.StatusCode.ALREADY_EXISTS, AlreadyExists),
        (grpc.StatusCode.FAILED_PRECONDITION, FailedPrecondition),
        (grpc.StatusCode.UNAUTHENTICATED, NotAllowed),
        (grpc.StatusCode.PERMISSION_DENIED, NotAllowed),
        (grpc.StatusCode.UNIMPLEMENTED, Unsupported),
        (grpc.StatusCode.ABORTED, Aborted),
        (grpc.StatusCode.INTERNAL, ServerFault),
        (grpc.StatusCode.DEADLINE_EXCEEDED, DeadlineExceeded),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Overloaded),
    ],
)
def test_a_status_is_one_error_and_is_not_tried_again(code, kind):
    """Each status has its class; none of these is retried."""
    with FakeInference(refuse(code, "why")) as server, Client(server.address, retry=FAST) as client:
        with pytest.raises(kind, match="why") as caught:
            list(client.generate("hi"))
        assert caught.value.code == code
        assert len(server.requests) == 1


def test_an_invalid_request_names_the_fields():
    """BadRequest details become violations."""
    with FakeInference(invalid("sampling.top_p", "is 2")) as server, Client(server.address) as client:
        with pytest.raises(InvalidRequest) as caught:
            client.complete("hi", top_p=2.0)
        assert caught.value.violations == (Violation("sampling.top_p", "is 2"),)


def test_no_server_and_no_answer_are_said_in_plain_words():
    """Where nothing listens, and where nothing comes in time, the text is not the transport's."""
    with Client("127.0.0.1:1", retry=FAST) as client:
        with pytest.raises(Unavailable) as caught:
            client.complete("hi")
        assert str(caught.value) == "no server at 127.0.0.1:1"
    with FakeInference(sleep_forever) as server, Client(server.address) as client:
        with pytest.raises(DeadlineExceeded) as late:
            list(client.generate("hi", timeout_s=0.2))
        assert str(late.value) == "not answered within 0.2 s"
