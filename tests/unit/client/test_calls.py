"""Calls of the typed client that have one reply."""

from headway.client import AsyncClient, Client
from headway.v1 import inference_pb2 as v1

from tests.support.fake_inference import FakeInference, finished, reply


def test_the_unary_calls_return_plain_values():
    """tokenize, detokenize, model, explain and abort say what the server said."""
    replies = (
        v1.TokenizeResponse(token_ids=[1, 2]),
        v1.DetokenizeResponse(text="hi"),
        v1.GetModelResponse(name="fake"),
        v1.ExplainResponse(request_id="r"),
        v1.AbortResponse(),
    )
    with FakeInference(*map(reply, replies)) as server, Client(server.address) as client:
        assert client.tokenize("hi") == [1, 2]
        assert client.detokenize([1, 2]) == "hi"
        assert client.model().name == "fake"
        assert client.explain("r").request_id == "r"
        client.abort("r")
    assert [type(each).__name__ for each in server.requests] == [
        "TokenizeRequest", "DetokenizeRequest", "GetModelRequest", "ExplainRequest", "AbortRequest",
    ]  # fmt: skip


async def test_the_async_unary_calls_return_plain_values():
    """The asyncio client's unary calls do as the other one's."""
    whole = v1.CompleteResponse(answers=[v1.Answer(text="hi", token_ids=[1], finished=finished().finished)])
    replies = (
        whole,
        v1.TokenizeResponse(token_ids=[1, 2]),
        v1.DetokenizeResponse(text="hi"),
        v1.GetModelResponse(name="fake"),
        v1.ExplainResponse(request_id="r"),
        v1.AbortResponse(),
    )
    with FakeInference(*map(reply, replies)) as server:
        async with AsyncClient(server.address) as client:
            completion = await client.complete("hi")
            assert (completion.text, completion.token_ids) == ("hi", (1,))
            assert completion.finished.usage.completion_tokens == 1
            assert await client.tokenize("hi") == [1, 2]
            assert await client.detokenize([1, 2]) == "hi"
            assert (await client.model()).name == "fake"
            assert (await client.explain("r")).request_id == "r"
            await client.abort("r")
