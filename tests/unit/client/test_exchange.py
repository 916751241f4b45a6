"""Exchanges of the typed client: one answer over as many calls as it takes, and where it ends."""

import grpc
import pytest
from headway.client import AsyncClient, Client, FailedPrecondition, ServerFault, Unavailable
from headway.v1 import inference_pb2 as v1

from tests.support.fake_inference import (
    FINGERPRINT,
    SEED,
    FakeInference,
    answer,
    break_after,
    delta,
    finished,
    refuse,
    started,
    tokens_of,
)
from tests.unit.client.asking import FAST, collect

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE

however_it_breaks = pytest.mark.parametrize(
    ("code", "why"),
    [
        (UNAVAILABLE, "gone"),
        (grpc.StatusCode.CANCELLED, "gone"),
        (grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2"),
    ],
)


@however_it_breaks
def test_a_broken_stream_is_resumed_where_it_was(code, why):
    """After tokens came, prompt, tokens and seed are sent again and the text goes on with nothing lost or doubled."""
    with FakeInference(break_after("hel", code, why), answer("hello")) as server:
        with Client(server.address, retry=FAST) as client:
            stream = client.generate("hi", temperature=0.8, prompt_logprobs=1)
            deltas = list(stream)
        resumed = server.requests[1]
    assert "".join(each.text for each in deltas) == stream.text == "hello"
    assert [token for each in deltas for token in each.token_ids] == tokens_of("hello")
    assert resumed.resume == v1.Resume(token_ids=tokens_of("hel"), seed=SEED, fingerprint=FINGERPRINT)
    assert resumed.parts == server.requests[0].parts
    assert not resumed.output.HasField("prompt_logprobs")


@however_it_breaks
async def test_a_broken_async_stream_is_resumed_where_it_was(code, why):
    """The asyncio client resumes as the other one does."""
    with FakeInference(break_after("hel", code, why), answer("hello")) as server:
        async with AsyncClient(server.address, retry=FAST) as client:
            deltas = await collect(client.generate("hi"))
    assert "".join(each.text for each in deltas) == "hello"
    assert server.requests[1].resume.token_ids == tokens_of("hel")


def test_a_stream_that_broke_before_its_first_token_keeps_its_seed():
    """Started came but no token: the request is sent again with the seed that was drawn."""
    with FakeInference(break_after(""), answer("ok")) as server, Client(server.address, retry=FAST) as client:
        assert "".join(each.text for each in client.generate("hi")) == "ok"
    assert server.requests[1].sampling.seed == SEED
    assert not server.requests[1].HasField("resume")


def test_progress_starts_the_count_of_attempts_anew():
    """A stream that breaks more often than the policy allows goes on as long as each attempt brings a token."""
    text = "abcdefgh"

    async def one_more(request, context):
        if len(server.requests) % 2:  # every second attempt brings nothing
            await context.abort(UNAVAILABLE, "gone")
        await context.write(started())
        received = len(request.resume.token_ids)
        await context.write(delta(text[received]))
        if received + 1 < len(text):
            await context.abort(UNAVAILABLE, "gone")
        await context.write(finished())

    with FakeInference(one_more) as server, Client(server.address, retry=FAST) as client:
        assert "".join(each.text for each in client.generate("hi")) == text
        assert len(server.requests) > FAST.max_attempts


def test_a_stream_without_progress_is_given_up():
    """Resuming is bounded when no attempt brings a token."""
    with FakeInference(break_after("a"), refuse(UNAVAILABLE)) as server:
        with Client(server.address, retry=FAST) as client, pytest.raises(Unavailable):
            list(client.generate("hi"))
        assert len(server.requests) == FAST.max_attempts


def test_another_model_ends_a_resumed_stream():
    """FAILED_PRECONDITION on resume is the caller's to see."""
    changed = refuse(grpc.StatusCode.FAILED_PRECONDITION, "another model")
    with FakeInference(break_after("a"), changed) as server, Client(server.address, retry=FAST) as client:
        with pytest.raises(FailedPrecondition, match="another model"):
            list(client.generate("hi"))
        assert len(server.requests) == 2


def test_a_request_id_still_held_by_the_broken_call_is_waited_out():
    """ALREADY_EXISTS after our own break is retried; as a first answer it is an error."""
    taken = refuse(grpc.StatusCode.ALREADY_EXISTS, "taken")
    with FakeInference(break_after("a"), taken, answer("ab")) as server, Client(server.address, retry=FAST) as client:
        assert "".join(each.text for each in client.generate("hi", request_id="mine")) == "ab"


def test_several_answers_are_not_resumed():
    """With n of more than one a break after tokens is told."""
    with FakeInference(break_after("a")) as server, Client(server.address, retry=FAST) as client:
        with pytest.raises(Unavailable):
            list(client.generate("hi", n=2))
        assert len(server.requests) == 1


def test_several_answers_end_when_each_has_ended():
    """A stream of n answers tells them apart by index."""

    async def two(_request, context):
        for each in (started(), delta("a", 0), delta("b", 1), finished(1), delta("A", 0), finished(0)):
            await context.write(each)

    with FakeInference(two) as server, Client(server.address) as client:
        deltas = list(client.generate("hi", n=2))
    assert [(each.index, each.text) for each in deltas if each.text] == [(0, "a"), (1, "b"), (0, "A")]


def test_a_lost_status_after_the_last_word_is_no_error():
    """Once the finish came the answer is complete, whatever becomes of the connection."""

    async def lost(_request, context):
        for each in (started(), delta("a"), finished()):
            await context.write(each)
        await context.abort(UNAVAILABLE, "gone")

    with FakeInference(lost) as server, Client(server.address, retry=FAST) as client:
        assert "".join(each.text for each in client.generate("hi")) == "a"
        assert len(server.requests) == 1


def test_a_stream_that_ends_without_its_last_word_is_the_servers_fault():
    """A status of OK before the finish is told, not taken for the end."""

    async def short(_request, context):
        await context.write(started())

    with FakeInference(short) as server, Client(server.address) as client, pytest.raises(ServerFault):
        list(client.generate("hi"))
