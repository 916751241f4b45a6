"""`headway demo`, through the front door of the command line; servers are scripted."""

import grpc
import pytest

from services.cli.main import main
from tests.support.fake_inference import FakeInference, answer, refuse

pytestmark = pytest.mark.usefixtures("clean")


def test_demo_streams_eight_prompts_at_once_and_shows_the_latencies(capsys):
    """All eight are live together; the table has a row for each, and the exit code is 0."""
    with FakeInference(answer("some words")) as server:
        assert main(["demo", "--address", server.address]) == 0
    output = capsys.readouterr().out
    assert len(server.requests) == 8
    assert output.count("some words") == 8
    assert all(column in output for column in ("TTFT", "TBT mean", "TBT max", "tokens/s"))


def test_demo_fails_when_a_prompt_did(capsys):
    """One answer that failed makes the exit code 1 and is named."""
    failing = refuse(grpc.StatusCode.INTERNAL, "broken")
    with FakeInference(failing, answer("fine")) as server:
        assert main(["demo", "--address", server.address]) == 1
    assert capsys.readouterr().err.count("broken") == 1
