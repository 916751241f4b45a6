"""`headway generate`, through the front door of the command line; servers are scripted."""

import io
import os
import subprocess
import sys

import grpc
import pytest

from services.cli.main import main
from tests.support.fake_inference import MODEL, FakeInference, answer, refuse

pytestmark = pytest.mark.usefixtures("clean")


def test_generate_streams_the_answer(capsys):
    """The answer goes to standard output as it is, the statistics to standard error."""
    with FakeInference(MODEL, answer("héllo")) as server:
        code = main(["generate", "hi", "--address", server.address, "--stats", "--max-tokens", "5", "--seed", "3"])
    output = capsys.readouterr()
    assert (code, output.out) == (0, "héllo\n")
    assert output.err.startswith("5 tokens, TTFT ")
    request = server.requests[1]
    assert (request.stop.max_tokens, request.sampling.seed) == (5, 3)
    assert request.chat.messages[0].content[0].text == "hi"


def test_generate_reads_standard_input_and_can_go_without_the_template(capsys, monkeypatch):
    """A prompt of "-" is read from standard input; --raw sends it as text."""
    give_input(monkeypatch, b"Once")
    with FakeInference(MODEL, answer("x")) as server:
        assert main(["generate", "-", "--raw", "--address", server.address]) == 0
    assert server.requests[1].parts.parts[0].text == "Once"
    assert capsys.readouterr().out == "x\n"


def give_input(monkeypatch, data):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_input_that_is_no_text_is_told(capsys, monkeypatch):
    """Bytes that are not UTF-8 end with 1 and words; nothing is sent."""
    give_input(monkeypatch, b"\xff\xfe\x80")
    with FakeInference(MODEL) as server:
        assert main(["generate", "-", "--address", server.address]) == 1
        assert server.requests == []
    assert capsys.readouterr().err == "headway: standard input is not UTF-8: byte 0 cannot be read\n"


@pytest.mark.parametrize("command", [["generate", "hi"], ["chat"]])
@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (["--seed", "-3"], "sampling.seed: must be from 0 to 18446744073709551615"),
        (["--seed", "99999999999999999999"], "sampling.seed"),
        (["--max-tokens", "99999999999"], "stop.max_tokens"),
        (["--top-k", "99999999999"], "sampling.top_k"),
    ],
)
def test_a_number_that_no_request_can_hold_ends_with_2(capsys, command, flags, field):
    """The field is named; a conversation does not begin."""
    with FakeInference(MODEL) as server:
        assert main([*command, *flags, "--address", server.address]) == 2
    assert f"headway: {field}" in capsys.readouterr().err


def test_an_output_that_nobody_reads_ends_quietly():
    """`headway generate ... | head` shows no traceback."""
    with FakeInference(MODEL, answer("x" * 50)) as server:
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-m", "services.cli.main", "generate", "hi", "--address", server.address],
            stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_request_that_fails_ends_with_1_and_the_reason(capsys):
    """What the server said is told on standard error."""
    with FakeInference(MODEL, refuse(grpc.StatusCode.NOT_FOUND, "no such model; served: a")) as server:
        assert main(["generate", "hi", "--model", "b", "--address", server.address]) == 1
    assert capsys.readouterr().err == "headway: no such model; served: a\n"


def test_a_server_that_is_not_there_is_told(capsys):
    """Without a server, a client command fails soon and says so."""
    assert main(["generate", "hi", "--address", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "headway: no server at 127.0.0.1:1; start one with: headway serve\n"
