"""Errors: what a call can end with, and which of them a status of gRPC is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2


@dataclass(frozen=True, slots=True)
class Violation:
    """A field of the request, and what is wrong with it."""

    field: str
    description: str


class HeadwayError(Exception):
    """Base of all that the client raises for a call. `code` is the gRPC status; the text is the server's."""

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        violations: Sequence[Violation] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.violations = tuple(violations)
        self.retry_after_s = retry_after_s


class InvalidRequest(HeadwayError): ...


class NotFound(HeadwayError): ...


class AlreadyExists(HeadwayError): ...


class FailedPrecondition(HeadwayError): ...


class NotAllowed(HeadwayError): ...


class Overloaded(HeadwayError): ...


class DeadlineExceeded(HeadwayError): ...


class Aborted(HeadwayError): ...


class Unsupported(HeadwayError): ...


class Unavailable(HeadwayError): ...


class ServerFault(HeadwayError): ...


_ERROR_OF_CODE: dict[grpc.StatusCode, type[HeadwayError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.UNAUTHENTICATED: NotAllowed,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    # Servers of Headway never end a call so; a proxy or a server that goes away does. Our own cancel raises nothing.
    grpc.StatusCode.CANCELLED: Unavailable,
}
_NO_CONNECTION = ("failed to connect", "connections to all backends failing", "Connection refused", "resolution failed")
_BROKEN_TRANSPORT = ("RST_STREAM", "Stream removed", "GOAWAY", "Socket closed", "Connection reset")


def error_of(call: Any, address: str, timeout_s: float | None) -> HeadwayError:
    """The error that ended `call`, an `RpcError` of grpc or grpc.aio, of a request that had `timeout_s` in all."""
    code, message = call.code(), call.details() or ""
    details = _details(call.trailing_metadata() or ())
    kind = _ERROR_OF_CODE.get(code, ServerFault)
    if kind is ServerFault and details is None and any(mark in message for mark in _BROKEN_TRANSPORT):
        kind = Unavailable  # the transport's words for a connection that broke
    if details is None and kind is Unavailable and any(mark in message for mark in _NO_CONNECTION):
        message = f"no server at {address}"
    elif details is None and kind is DeadlineExceeded and timeout_s is not None:
        message = f"not answered within {timeout_s:g} s"
    violations: list[Violation] = []
    retry_after_s = None
    for detail in details.details if details else ():
        bad_request, retry_info = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(bad_request):
            violations += [Violation(each.field, each.description) for each in bad_request.field_violations]
        elif detail.Unpack(retry_info):
            retry_after_s = retry_info.retry_delay.ToMilliseconds() / 1000
    return kind(message or code.name, code=code, violations=violations, retry_after_s=retry_after_s)


def _details(trailing_metadata: Any) -> status_pb2.Status | None:
    for key, value in trailing_metadata:
        if key == "grpc-status-details-bin":
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                return None
    return None
