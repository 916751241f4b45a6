"""Refusals: statuses with google.rpc details."""

import grpc
import pytest
from google.rpc import error_details_pb2

from services.runtime.errors import (
    MAX_MESSAGE_BYTES,
    Refusal,
    deadline_exceeded,
    error_info,
    exhausted,
    internal,
    invalid,
    invalid_field,
    not_found,
    unavailable,
)


def details_of(refusal: Refusal, kind):
    found = []
    for packed in refusal.to_status().details:
        detail = kind()
        if packed.Unpack(detail):
            found.append(detail)
    return found


def test_an_invalid_field_is_named_in_words_and_in_the_details():
    """INVALID_ARGUMENT carries the field's path and the rule that it breaks."""
    refusal = invalid_field("stop.max_tokens", "is -1; it must be at least 1")
    assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.message == "stop.max_tokens: is -1; it must be at least 1"
    (violation,) = details_of(refusal, error_details_pb2.BadRequest)[0].field_violations
    assert (violation.field, violation.description) == ("stop.max_tokens", "is -1; it must be at least 1")


@pytest.mark.parametrize("make", [exhausted, unavailable])
def test_a_delay_is_told_where_there_is_one(make):
    """RetryInfo is there exactly when a delay is known, and is never shorter than it or negative."""
    assert details_of(make("later", "FULL", None), error_details_pb2.RetryInfo) == []
    for delay_s in (0.0, 0.25, 1e-7, -3.0, 90.0):
        (info,) = details_of(make("later", "FULL", delay_s), error_details_pb2.RetryInfo)
        told_s = info.retry_delay.ToMicroseconds() / 1e6
        assert max(delay_s, 0.0) <= told_s <= max(delay_s, 0.0) + 1e-6


def test_the_trailers_hold_the_same_status():
    """The status in a call's trailers is the one that a message would hold."""
    refusal = not_found("no such model", "MODEL_UNKNOWN", {"served_models": "a"})
    ((key, value),) = refusal.trailers()
    assert key == "grpc-status-details-bin"
    assert value == refusal.to_status().SerializeToString()
    (info,) = details_of(refusal, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain, dict(info.metadata)) == ("MODEL_UNKNOWN", "headway", {"served_models": "a"})


def test_a_long_message_is_cut():
    """Trailers are bounded by clients, so that a message is bounded here."""
    refusal = invalid("x" * 100_000)
    assert len(refusal.message) <= MAX_MESSAGE_BYTES


def test_whatever_a_refusal_quotes_it_fits_into_trailers():
    """Message, field, description and metadata are cut by their size on the wire, 8 KB with the worst of characters."""
    huge = "\U0001f600" * 100_000
    for refusal in (invalid_field(huge, huge), not_found(huge, "GONE", {"served": huge})):
        size = 3 * len(refusal.message.encode())  # as grpc-message, where each byte is percent-encoded
        size += sum(4 * len(value) // 3 for _, value in refusal.trailers())
        assert size < 8192


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (deadline_exceeded("late"), grpc.StatusCode.DEADLINE_EXCEEDED),
        (internal(), grpc.StatusCode.INTERNAL),
        (invalid("no"), grpc.StatusCode.INVALID_ARGUMENT),
        (exhausted("full", "FULL", 1), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (unavailable("away", "AWAY"), grpc.StatusCode.UNAVAILABLE),
        (Refusal(grpc.StatusCode.ABORTED, "ended", error_info("ABORTED")), grpc.StatusCode.ABORTED),
    ],
)
def test_each_has_its_code(refusal, code):
    """The status's code is the refusal's."""
    assert refusal.code == code
    assert refusal.to_status().code == code.value[0]
