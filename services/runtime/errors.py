"""A refusal: how an error reaches a client, as a gRPC status with google.rpc details.

A message says what was wrong, whose it is and what to do; it names no path, host or internal part.
"""

import math
from collections.abc import Mapping

import grpc
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.message import Message as Proto
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

DOMAIN = "headway"
# A status travels in HTTP/2 trailers, which clients bound to 8 KB or so. A message is in them twice, once with three
# characters for each byte that is not ASCII, and what a client sent may be quoted in it.
MAX_MESSAGE_BYTES = 1024
_MAX_NAME_BYTES = 256  # of a field's path, and of a value of metadata

Trailers = tuple[tuple[str, bytes], ...]


class Refusal(Exception):
    """Ends a call with a status that is not OK; raised where the fault is found, answered at the process border."""

    def __init__(self, code: grpc.StatusCode, message: str, *details: Proto) -> None:
        self.code = code
        self.message = shortened(message, MAX_MESSAGE_BYTES)
        super().__init__(self.message)
        self.details = details

    def to_status(self) -> status_pb2.Status:
        """The refusal as the `google.rpc.Status` that also travels inside messages."""
        packed = []
        for detail in self.details:
            packed.append(AnyProto())
            packed[-1].Pack(detail)
        return status_pb2.Status(code=self.code.value[0], message=self.message, details=packed)

    def trailers(self) -> Trailers:
        """The trailing metadata that carries the details."""
        trailing: Trailers = rpc_status.to_status(self.to_status()).trailing_metadata
        return trailing


def shortened(text: str, max_bytes: int) -> str:
    """`text`, cut when it has more than `max_bytes` in UTF-8."""
    # No character has less than one byte, so that a huge text is not encoded to learn its size.
    encoded = text[: max_bytes + 1].encode(errors="replace")
    if len(encoded) <= max_bytes:
        return text
    return encoded[: max_bytes - 3].decode(errors="ignore") + "..."


def field_violation(field: str, why: str) -> error_details_pb2.BadRequest:
    """The detail that names the offending field of a request by its path."""
    violation = error_details_pb2.BadRequest.FieldViolation(
        field=shortened(field, _MAX_NAME_BYTES), description=shortened(why, MAX_MESSAGE_BYTES)
    )
    return error_details_pb2.BadRequest(field_violations=[violation])


def retry_info(retry_after_s: float) -> error_details_pb2.RetryInfo:
    """The detail that says when to try again."""
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromMicroseconds(math.ceil(max(retry_after_s, 0.0) * 1e6))
    return info


def error_info(reason: str, metadata: Mapping[str, str] | None = None) -> error_details_pb2.ErrorInfo:
    """The detail that a program can switch on: an UPPER_SNAKE_CASE reason."""
    short = {key: shortened(value, _MAX_NAME_BYTES) for key, value in (metadata or {}).items()}
    return error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=short)


def invalid_field(field: str, why: str) -> Refusal:
    """INVALID_ARGUMENT: `field` breaks a rule that `why` states."""
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"{field}: {why}", field_violation(field, why))


def invalid(message: str) -> Refusal:
    """INVALID_ARGUMENT for a message of which no field can be named."""
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, message)


def not_found(message: str, reason: str, metadata: Mapping[str, str] | None = None) -> Refusal:
    """NOT_FOUND: what the client names is not here."""
    return Refusal(grpc.StatusCode.NOT_FOUND, message, error_info(reason, metadata))


def exhausted(message: str, reason: str, retry_after_s: float | None) -> Refusal:
    """RESOURCE_EXHAUSTED: too much at this time; with a delay where trying again makes sense."""
    details: tuple[Proto, ...] = (error_info(reason),)
    if retry_after_s is not None:
        details += (retry_info(retry_after_s),)
    return Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, message, *details)


def unavailable(message: str, reason: str, retry_after_s: float | None = None) -> Refusal:
    """UNAVAILABLE: nothing is wrong with the request; it may be sent again."""
    details: tuple[Proto, ...] = (error_info(reason),)
    if retry_after_s is not None:
        details += (retry_info(retry_after_s),)
    return Refusal(grpc.StatusCode.UNAVAILABLE, message, *details)


def deadline_exceeded(message: str) -> Refusal:
    """DEADLINE_EXCEEDED: the client's own time is up."""
    return Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, message)


def internal() -> Refusal:
    """INTERNAL: our fault; what happened is in the log, not in the answer."""
    message = "the server failed to handle this request; the fault is the server's, and its operator can see the cause"
    return Refusal(grpc.StatusCode.INTERNAL, message, error_info("INTERNAL_ERROR"))
