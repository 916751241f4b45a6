"""Reject reasons: how a scheduler's last word on a sequence is told to the client."""

import grpc
from google.protobuf.message import Message

from services.runtime.errors import Refusal, error_info, internal, invalid, invalid_field, retry_info
from services.wire.scheduling import Rejected, RejectReason

_INVALID = {RejectReason.NEVER_FITS, RejectReason.INVALID, RejectReason.GRAMMAR}
_STATUSES = {
    RejectReason.QUEUE_FULL: (grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full; send the request again later"),
    RejectReason.QUOTA: (grpc.StatusCode.RESOURCE_EXHAUSTED, "the quota is used up; send the request again later"),
    RejectReason.DEADLINE: (grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline passed before the answer was complete"),
    RejectReason.EXECUTOR_UNAVAILABLE: (
        grpc.StatusCode.UNAVAILABLE,
        "no executor became available in time; send the request again",
    ),
    RejectReason.DRAINING: (grpc.StatusCode.UNAVAILABLE, "this server is shutting down; send the request again"),
    RejectReason.MODEL_CHANGED: (
        grpc.StatusCode.UNAVAILABLE,
        "the model has changed since the request began; start the request anew",
    ),
    RejectReason.POISONOUS: (
        grpc.StatusCode.INTERNAL,
        "the request was given up: computing it failed repeatedly; do not send it again",
    ),
    RejectReason.FAILED: (
        grpc.StatusCode.INTERNAL,
        "the request could not be computed: the model gave no valid result",
    ),
}


def refusal_of(rejected: Rejected) -> Refusal:
    """The status, details and words for `rejected`."""
    reason, words = rejected.reason, rejected.message
    if reason in _INVALID:
        words = words or "the request cannot be served as it is"
        return invalid_field(rejected.field, words) if rejected.field else invalid(words)
    if reason == RejectReason.DUPLICATE_ID:
        return duplicate_id(words)
    if reason not in _STATUSES:
        return internal()
    code, usual_words = _STATUSES[reason]
    details: list[Message] = [error_info(reason.name)]
    if rejected.retry_after_us >= 0:
        details.append(retry_info(rejected.retry_after_us / 1e6))
    return Refusal(code, words or usual_words, *details)


def duplicate_id(words: str = "") -> Refusal:
    """ALREADY_EXISTS: one of the caller's live requests has the id."""
    words = words or "request_id: a live request has this id; use another, or leave it empty to have one drawn"
    return Refusal(grpc.StatusCode.ALREADY_EXISTS, words, error_info("DUPLICATE_REQUEST_ID"))
