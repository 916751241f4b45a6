"""The typed client as its users see it: its names, its signatures, and its chat."""

import inspect

import grpc
import pytest
from headway import client as headway_client
from headway.client import AsyncClient, Client, ServerFault

from tests.support.fake_inference import FakeInference, answer, refuse
from tests.unit.client.asking import collect


def test_a_chat_remembers_its_turns():
    """Each turn is sent with all that was said before."""
    with FakeInference(answer("hello"), answer("bye")) as server, Client(server.address) as client:
        chat = client.chat("be brief")
        assert "".join(each.text for each in chat.send("hi")) == "hello"
        assert "".join(each.text for each in chat.send("leave")) == "bye"
    said = [(each.role, each.content[0].text) for each in server.requests[1].chat.messages]
    assert said == [("system", "be brief"), ("user", "hi"), ("assistant", "hello"), ("user", "leave")]


async def test_an_async_chat_remembers_its_turns():
    """The asyncio chat does as the other one does, and a turn that failed is not remembered."""
    with FakeInference(answer("hello"), refuse(grpc.StatusCode.INTERNAL)) as server:
        async with AsyncClient(server.address) as client:
            chat = client.chat()
            assert "".join([each.text async for each in chat.send("hi")]) == "hello"
            with pytest.raises(ServerFault):
                await collect(chat.send("again"))
    assert [each["role"] for each in chat.messages] == ["user", "assistant"]


def test_the_public_names_are_these():
    """Names of the client are added, not taken away without a thought."""
    assert headway_client.__all__ == [
        "DEFAULT_ADDRESS", "Aborted", "AlreadyExists", "AsyncChat", "AsyncClient", "AsyncStream", "Chat", "Client", "Completion",
        "DeadlineExceeded", "Delta", "FailedPrecondition", "HeadwayError", "InvalidRequest", "NotAllowed", "NotFound",
        "Overloaded", "Params", "Prompt", "RetryPolicy", "ServerFault", "Stream", "Unavailable", "Unsupported",
        "Violation",
    ]  # fmt: skip
    public = {name for name in vars(Client) if not name.startswith("_")}
    assert public == {"generate", "complete", "chat", "tokenize", "detokenize", "model", "explain", "abort", "close"}
    assert {name for name in vars(AsyncClient) if not name.startswith("_")} == public


def test_the_public_classes_say_where_they_are_imported_from():
    """A traceback names the module that a user imports from, not the one in which the class is written."""
    public = [getattr(headway_client, name) for name in headway_client.__all__]
    assert {each.__module__ for each in public if isinstance(each, type)} == {"headway.client"}


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_call_shows_its_parameters(kind):
    """`help` and editors see what a call takes, though it is defined once for both clients."""
    assert list(inspect.signature(kind.detokenize).parameters) == [
        "self", "token_ids", "model", "skip_special_tokens", "timeout_s",
    ]  # fmt: skip
    assert "exact tokens" in inspect.getdoc(kind.tokenize)
