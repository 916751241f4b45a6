"""`headway chat`, through the front door of the command line; servers are scripted."""

import grpc
import pytest

from services.cli.main import main
from tests.support.fake_inference import MODEL, FakeInference, answer, refuse

pytestmark = pytest.mark.usefixtures("clean")


def test_chat_answers_until_the_input_ends(capsys, monkeypatch):
    """Each line is a turn; an error ends the turn, not the conversation."""
    lines = iter(["hi", "", "again"])
    monkeypatch.setattr("builtins.input", lambda _prompt: next(lines, None) or _eof_or_blank(lines))
    failing = refuse(grpc.StatusCode.INTERNAL, "broken")
    with FakeInference(MODEL, MODEL, answer("hello"), failing) as server:
        assert main(["chat", "--address", server.address, "--system", "be brief"]) == 0
    output = capsys.readouterr()
    assert "hello" in output.out
    assert "headway: broken" in output.err
    assert [each.role for each in server.requests[3].chat.messages] == ["system", "user", "assistant", "user"]


def _eof_or_blank(lines):
    """The empty line, once; then the end of input."""
    if lines.__length_hint__():
        return ""
    raise EOFError
