import grpc
import pytest
from headway.v1 import inference_pb2 as v1

from services.cli.bench.grpc_target import GrpcTarget
from services.cli.bench.result import Record
from services.cli.bench.target import Answer, Broken, Clock, Exchange, Refused
from services.cli.bench.workload import Request
from tests.support.fake_inference import (
    FakeInference,
    answer,
    break_after,
    invalid,
    overloaded,
    refuse,
    reply,
    tokens_of,
)

REQUEST = Request(index=0, prompt=bytes([0, 1]), output_tokens=3)


def model(vocab_size=259):
    return reply(v1.GetModelResponse(name="fake", limits=v1.ModelLimits(vocab_size=vocab_size), batch_invariant=True))


async def sent(server, *, prompts="text", request=REQUEST, before=()):
    record = Record(index=0, intended_s=0.0, sent_s=0.0)
    async with GrpcTarget(server.address, model="", prompts=prompts) as target:
        facts = await target.facts()
        assert (facts.model, facts.details["batch_invariant"]) == ("fake", True)
        return record, await target.send(request, before, record, Clock())


async def test_a_stream_becomes_messages_and_usage():
    """One message for each delta with tokens; counts are the server's."""
    with FakeInference(model(), answer("abc")) as server:
        record, said = await sent(server)
    assert record.message_tokens == [1, 1, 1]
    assert (record.input_tokens, record.output_tokens, record.cached_tokens) == (1, 1, 0)  # as the fake's usage says
    assert (said.text, said.token_ids) == ("abc", tokens_of("abc"))


async def test_lengths_are_forced():
    """The least and the most tokens are the same, an end of sequence is ignored, greedy."""
    with FakeInference(model(), answer("abc")) as server:
        await sent(server)
    stop, sampling = server.requests[-1].stop, server.requests[-1].sampling
    assert (stop.min_tokens, stop.max_tokens, stop.ignore_eos, sampling.temperature) == (3, 3, True, 0.0)
    assert server.requests[-1].parts.parts[0].text == "the of"


async def test_prompts_are_text_chat_or_token_ids_with_all_that_was_said_before():
    """Token ids begin past the special ones of a large vocabulary, and at 0 in the simulated model's."""
    before = [Exchange(REQUEST, Answer("yes", [5]))]
    later = Request(index=1, prompt=bytes([3]), output_tokens=2)
    made = {}
    for prompts, vocab_size in (("text", 259), ("chat", 259), ("ids", 259), ("ids", 49152)):
        with FakeInference(model(vocab_size), answer("abc")) as server:
            await sent(server, prompts=prompts, request=later, before=before)
            made[prompts, vocab_size] = server.requests[-1]
    assert made["text", 259].parts.parts[0].text == "the ofyes\nto"
    assert [message.content[0].text for message in made["chat", 259].chat.messages] == ["the of", "yes", "to"]
    assert list(made["ids", 259].parts.parts[0].token_ids.ids) == [0, 1, 5, 3]
    assert list(made["ids", 49152].parts.parts[0].token_ids.ids) == [1000, 1001, 5, 1003]


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (overloaded(0.01), Refused, "the queue is full"),
        (refuse(grpc.StatusCode.UNAVAILABLE), Broken, "refused"),
        (invalid("stop.max_tokens", "too many"), Broken, "not to be served as it is: .*too many"),
        (break_after("ab"), Broken, "gone"),
        (break_after("ab", grpc.StatusCode.RESOURCE_EXHAUSTED, "slow reader"), Broken, "slow reader"),
    ],
)
async def test_what_goes_wrong_is_told_and_not_tried_again(script, kind, words):
    """A refusal is a result, not something to be hidden by a second attempt."""
    with FakeInference(model(), script) as server, pytest.raises(kind, match=words):
        await sent(server)
    assert len(server.requests) == 2


async def test_nobody_there_is_told():
    """The facts are asked first."""
    async with GrpcTarget("127.0.0.1:1", model="", prompts="text") as target:
        with pytest.raises(Broken, match="no server at 127"):
            await target.facts()
