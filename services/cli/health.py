"""`headway health`: says whether a server serves, as an exit code for probes."""

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from headway.client import DEFAULT_ADDRESS

from services.cli.console import fail, out

READINESS = "headway.v1.Inference"


def status_of(address: str, service: str, timeout_s: float) -> str:
    """The status that the server's health service gives for `service`, or why there is none."""
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            response = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s)
        except grpc.RpcError as error:
            return f"no answer: {error.details() or error.code().name}"
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


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
