"""The typed client, against a scripted server on loopback."""

import asyncio
import inspect
import threading
import time

import grpc
import pytest
from headway import client as headway_client
from headway.client import (
    Aborted,
    AlreadyExists,
    AsyncClient,
    Client,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Overloaded,
    RetryPolicy,
    ServerFault,
    Unavailable,
    Unsupported,
    Violation,
)
from headway.v1 import inference_pb2 as v1

from tests.support.fake_inference import (
    FINGERPRINT,
    SEED,
    FakeInference,
    answer,
    break_after,
    delta,
    finished,
    invalid,
    overloaded,
    refuse,
    reply,
    started,
    tokens_of,
    unavailable_for,
)

FAST = RetryPolicy(max_attempts=4, first_pause_s=0.01, max_pause_s=0.05)
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


async def sleep_forever(_request, context):
    await context.write(started())
    await context.write(delta("a"))
    await asyncio.Event().wait()


async def collect(stream):
    return [each async for each in stream]


def test_a_stream_yields_text_and_tokens_and_ends_with_the_finish():
    """Concatenated deltas are the answer; the last one says why it ended."""
    with FakeInference(answer("héllo")) as server, Client(server.address) as client:
        stream = client.generate("hi", max_tokens=5)
        deltas = list(stream)
    assert "".join(each.text for each in deltas) == stream.text == "héllo"
    assert [token for each in deltas for token in each.token_ids] == tokens_of("héllo")
    assert [each.finished is not None for each in deltas] == [False] * 5 + [True]
    assert (stream.started.seed, stream.started.model) == (SEED, "fake")


async def test_an_async_stream_yields_the_same():
    """The asyncio client streams as the other one does."""
    with FakeInference(answer("héllo")) as server:
        async with AsyncClient(server.address) as client:
            deltas = await collect(client.generate("hi"))
    assert "".join(each.text for each in deltas) == "héllo"
    assert deltas[-1].finished.reason == v1.FINISH_REASON_LENGTH


def test_every_parameter_has_its_place_in_the_request():
    """Each keyword parameter lands in the field of that meaning, and what is left out stays unset."""
    params = {
        "model": "m", "request_id": "r", "n": 2, "priority": -1, "latency_class": "batch", "labels": {"a": "b"},
        "temperature": 0.0, "top_p": 0.5, "top_k": 3, "min_p": 0.25, "seed": 9, "repetition_penalty": 2.0,
        "presence_penalty": 1.0, "frequency_penalty": 0.5, "logit_bias": {4: 1.5}, "allowed_token_ids": [4],
        "banned_token_ids": [5], "max_tokens": 6, "min_tokens": 0, "stop": "end", "stop_token_ids": [8],
        "ignore_eos": True, "include_stop_string": True, "logprobs": 0, "prompt_logprobs": 1,
        "skip_special_tokens": False, "add_special_tokens": False,
    }  # fmt: skip
    with FakeInference(reply(v1.CompleteResponse())) as server, Client(server.address) as client:
        client.complete("text", **params)
        client.complete([1, 2])
        client.complete([{"role": "user", "content": "hi"}], add_generation_prompt=False, stop=["a", "b"])
    full, ids, chat = server.requests
    assert full == v1.GenerateRequest(
        model="m", request_id="r", n=2, priority=-1, latency_class="batch", labels={"a": "b"},
        parts=v1.PartsPrompt(parts=[v1.Part(text="text")], add_special_tokens=False),
        sampling=v1.SamplingParams(
            temperature=0.0, top_p=0.5, top_k=3, min_p=0.25, seed=9, repetition_penalty=2.0, presence_penalty=1.0,
            frequency_penalty=0.5, logit_bias={4: 1.5}, allowed_token_ids=[4], banned_token_ids=[5],
        ),
        stop=v1.StopParams(
            max_tokens=6, min_tokens=0, strings=["end"], token_ids=[8], ignore_eos=True, include_stop_string=True
        ),
        output=v1.OutputParams(logprobs=0, prompt_logprobs=1, skip_special_tokens=False),
    )  # fmt: skip
    assert ids == v1.GenerateRequest(parts=v1.PartsPrompt(parts=[v1.Part(token_ids=v1.TokenIds(ids=[1, 2]))]))
    assert chat.chat == v1.ChatPrompt(
        messages=[v1.ChatMessage(role="user", content=[v1.Part(text="hi")])], add_generation_prompt=False
    )
    assert chat.stop.strings == ["a", "b"]


def test_a_parameter_that_does_not_exist_is_a_type_error():
    """A misspelt parameter is refused before anything is sent."""
    with FakeInference(answer("x")) as server, Client(server.address) as client:
        with pytest.raises(TypeError, match="tempreature"):
            client.generate("hi", tempreature=1.0)
        with pytest.raises(TypeError, match="its own parameters"):
            client.generate(v1.GenerateRequest(), seed=1)
        assert server.requests == []


@pytest.mark.parametrize(
    ("params", "field", "words"),
    [
        ({"seed": -3}, "sampling.seed", "from 0 to 18446744073709551615"),
        ({"seed": 10**20}, "sampling.seed", "from 0"),
        ({"max_tokens": 10**11}, "stop.max_tokens", "from -2147483648 to 2147483647"),
        ({"priority": 2**31}, "priority", "from -2147483648 to 2147483647"),
        ({"stop_token_ids": [10**11]}, "stop.token_ids", "must be from"),
        ({"logit_bias": {10**11: 1.0}}, "sampling.logit_bias", "out of range"),
        ({"temperature": 10**400}, "sampling.temperature", "out of range"),
        ({"model": "\udcff"}, "model", "surrogate"),
    ],
)
def test_a_value_that_no_request_can_hold_names_its_field(params, field, words):
    """What cannot even be sent is refused as the server would refuse it, before anything is sent."""
    with Client("127.0.0.1:1") as client, pytest.raises(InvalidRequest, match=words) as caught:
        client.generate("hi", **params)
    assert [each.field for each in caught.value.violations] == [field]


def test_what_no_call_can_send_names_its_field():
    """The same of what the other calls take."""
    with Client("127.0.0.1:1") as client:
        for call, field in (
            (lambda: client.generate("\udcff"), "parts"),
            (lambda: client.complete([10**11]), "parts"),
            (lambda: client.complete([{"role": "user", "content": "\udcff"}]), "chat.messages"),
            (lambda: client.tokenize("\udcff"), "parts"),
            (lambda: client.detokenize([10**11]), "token_ids"),
            (lambda: client.model("\udcff"), "model"),
            (lambda: client.tokenize("a", model="\udcff"), "model"),
            (lambda: client.detokenize([1], model="\udcff"), "model"),
            (lambda: client.explain("\udcff"), "request_id"),
            (lambda: client.abort("\udcff"), "request_id"),
        ):
            with pytest.raises(InvalidRequest) as caught:
                call()
            assert [each.field for each in caught.value.violations] == [field]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.NOT_FOUND, NotFound),
        (grpc.StatusCode.ALREADY_EXISTS, AlreadyExists),
        (grpc.StatusCode.FAILED_PRECONDITION, FailedPrecondition),
        (grpc.StatusCode.UNAUTHENTICATED, NotAllowed),
        (grpc.StatusCode.PERMISSION_DENIED, NotAllowed),
        (grpc.StatusCode.UNIMPLEMENTED, Unsupported),
        (grpc.StatusCode.ABORTED, Aborted),
        (grpc.StatusCode.INTERNAL, ServerFault),
        (grpc.StatusCode.DEADLINE_EXCEEDED, DeadlineExceeded),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Overloaded),
    ],
)
def test_a_status_is_one_error_and_is_not_tried_again(code, kind):
    """Each status has its class; none of these is retried."""
    with FakeInference(refuse(code, "why")) as server, Client(server.address, retry=FAST) as client:
        with pytest.raises(kind, match="why") as caught:
            list(client.generate("hi"))
        assert caught.value.code == code
        assert len(server.requests) == 1


def test_an_invalid_request_names_the_fields():
    """BadRequest details become violations."""
    with FakeInference(invalid("sampling.top_p", "is 2")) as server, Client(server.address) as client:
        with pytest.raises(InvalidRequest) as caught:
            client.complete("hi", top_p=2.0)
        assert caught.value.violations == (Violation("sampling.top_p", "is 2"),)


def test_no_server_and_no_answer_are_said_in_plain_words():
    """Where nothing listens, and where nothing comes in time, the text is not the transport's."""
    with Client("127.0.0.1:1", retry=FAST) as client:
        with pytest.raises(Unavailable) as caught:
            client.complete("hi")
        assert str(caught.value) == "no server at 127.0.0.1:1"
    with FakeInference(sleep_forever) as server, Client(server.address) as client:
        with pytest.raises(DeadlineExceeded) as late:
            list(client.generate("hi", timeout_s=0.2))
        assert str(late.value) == "not answered within 0.2 s"


def test_an_unavailable_server_is_tried_again_before_the_first_message():
    """UNAVAILABLE before anything came: the same request is sent again."""
    with FakeInference(refuse(UNAVAILABLE), refuse(UNAVAILABLE), answer("ok")) as server:
        with Client(server.address, retry=FAST) as client:
            assert "".join(each.text for each in client.generate("hi")) == "ok"
        assert server.requests[0] == server.requests[1] == server.requests[2]


def test_a_pause_that_an_unavailable_server_names_is_kept():
    """UNAVAILABLE with RetryInfo is not tried again sooner than it says."""
    with FakeInference(unavailable_for(0.3), answer("ok")) as server, Client(server.address, retry=FAST) as client:
        began = time.monotonic()
        assert "".join(each.text for each in client.generate("hi")) == "ok"
        assert time.monotonic() - began >= 0.3


def test_attempts_are_bounded():
    """A server that stays away is given up after the policy's number of attempts."""
    with FakeInference(refuse(UNAVAILABLE)) as server, Client(server.address, retry=FAST) as client:
        with pytest.raises(Unavailable):
            client.complete("hi")
        assert len(server.requests) == FAST.max_attempts


def test_a_full_queue_is_tried_again_after_the_servers_pause():
    """RESOURCE_EXHAUSTED with RetryInfo is waited out, and no less than the server asked."""
    with FakeInference(overloaded(0.3), answer("ok")) as server, Client(server.address, retry=FAST) as client:
        began = time.monotonic()
        assert "".join(each.text for each in client.generate("hi", timeout_s=30)) == "ok"
        assert time.monotonic() - began >= 0.3


def test_a_pause_that_the_deadline_leaves_no_room_for_is_told_at_once():
    """When the server's pause is longer than what is left, Overloaded is raised without waiting."""
    with FakeInference(overloaded(60)) as server, Client(server.address, retry=FAST) as client:
        began = time.monotonic()
        with pytest.raises(Overloaded) as caught:
            list(client.generate("hi", timeout_s=20))
        assert caught.value.retry_after_s == 60
        assert time.monotonic() - began < 10


def test_the_deadline_covers_all_attempts():
    """`timeout_s` becomes the call's deadline, and a later attempt has only what is left."""
    with FakeInference(overloaded(0.2), sleep_forever) as server, Client(server.address) as client:
        with pytest.raises(DeadlineExceeded):
            list(client.generate("hi", timeout_s=1.0))
        first, second = server.timeouts_s
        assert first < 1.1
        assert second < first - 0.15


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (UNAVAILABLE, "gone"),
        (grpc.StatusCode.CANCELLED, "gone"),
        (grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2"),
    ],
)
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


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (UNAVAILABLE, "gone"),
        (grpc.StatusCode.CANCELLED, "gone"),
        (grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2"),
    ],
)
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


def test_leaving_a_stream_cancels_the_call():
    """The server hears of a client that stops reading."""
    with FakeInference(sleep_forever) as server, Client(server.address) as client:
        with client.generate("hi") as stream:
            assert next(stream).text == "a"
        assert server.cancelled.wait(10)
        assert list(stream) == []


def test_cancel_from_another_thread_ends_the_iteration():
    """`cancel()` wakes a reader that waits for the next token; it ends without an error."""
    with FakeInference(sleep_forever) as server, Client(server.address) as client:
        stream = client.generate("hi")
        timer = threading.Timer(0.2, stream.cancel)
        timer.start()
        assert [each.text for each in stream] == ["a"]
        assert server.cancelled.wait(10)
        timer.join()


async def test_cancelling_the_task_cancels_the_call():
    """A cancelled asyncio task cancels its call and stays cancelled."""
    with FakeInference(sleep_forever) as server:
        async with AsyncClient(server.address) as client:
            first = asyncio.Event()

            async def read():
                async for _ in client.generate("hi"):
                    first.set()

            task = asyncio.create_task(read())
            await first.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await asyncio.to_thread(server.cancelled.wait, 10)


async def test_cancel_ends_an_async_iteration():
    """`cancel()` ends an asyncio stream without an error."""
    with FakeInference(sleep_forever) as server:
        async with AsyncClient(server.address) as client:
            stream = client.generate("hi")
            assert (await anext(stream)).text == "a"
            asyncio.get_running_loop().call_later(0.1, stream.cancel)
            assert await collect(stream) == []


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
