"""`headway health`, through the front door of the command line; servers are scripted."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health_pb2_grpc

from services.cli.main import main
from tests.support.fake_inference import FakeInference, answer

pytestmark = pytest.mark.usefixtures("clean")


def test_health_is_an_exit_code(capsys):
    """A server without a health service, or none at all, is not healthy."""
    with FakeInference(answer("x")) as server:
        assert main(["health", "--address", server.address]) == 1
    assert main(["health", "--address", "127.0.0.1:1", "--timeout-s", "0.5"]) == 1
    assert main(["health", "--address", "127.0.0.1:1", "--service", "bogus"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].endswith("has no health service")
    assert said[1:] == ["headway: no answer: no server at 127.0.0.1:1"] * 2


def test_health_of_an_unknown_service_says_so(capsys):
    """A server that answers is not said to be silent: the reason is the name."""

    class Health(health_pb2_grpc.HealthServicer):
        def Check(self, request, context):  # noqa: N802 - the contract's name
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")

    server = grpc.server(ThreadPoolExecutor(1))
    health_pb2_grpc.add_HealthServicer_to_server(Health(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert main(["health", "--address", f"127.0.0.1:{port}", "--service", "bogus"]) == 1
    finally:
        server.stop(None).wait()
    assert "knows no service 'bogus'" in capsys.readouterr().err
