"""`headway health`: says whether a server serves, as an exit code for probes."""

from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from headway.client import DEFAULT_ADDRESS

from services.cli.console import fail, out

READINESS = "headway.v1.Inference"


_NO_ANSWER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
_STATUSES = health_pb2.HealthCheckResponse.ServingStatus


def is_ready(address: str, timeout_s: float) -> bool | None:
    """Whether the server says that it serves; None when it says nothing."""
    status = status_of(address, READINESS, timeout_s)
    return status == "SERVING" if status in _STATUSES.keys() else None  # noqa: SIM118 - an enum's wrapper, not a dict


def status_of(address: str, service: str, timeout_s: float) -> str:
    """The status that the server's health service gives for `service`, or why there is none."""
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            response = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s)
        except grpc.RpcError as error:
            return _why(error, address, service, timeout_s)
    return str(_STATUSES.Name(response.status))


def _why(error: Any, address: str, service: str, timeout_s: float) -> str:
    """Why there is no status, of a grpc.RpcError that a call ended with."""
    code = error.code()
    if code is grpc.StatusCode.NOT_FOUND:
        return f"the server knows no service {service!r}; it has {READINESS!r} and 'liveness'"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"what listens at {address} has no health service"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer from {address} within {timeout_s:g} s"
    if code in _NO_ANSWER:
        return f"no answer: no server at {address}"
    return f"{address} answers with {code.name}: {error.details()}"


def health(*, address: str = DEFAULT_ADDRESS, service: str = READINESS, timeout_s: float = 2.0) -> int:
    """Say whether a server serves: exit code 0 when it does, 1 when it does not or does not answer.

    Args:
        address: Address of the server, host:port or unix:PATH.
        service: What is asked about. The default is readiness: a request sent now would be computed. "liveness"
            asks whether the process answers.
        timeout_s: How long to wait for the answer.
    """
    if (status := status_of(address, service, timeout_s)) == "SERVING":
        out.print(status)
        return 0
    fail(status)
    return 1
