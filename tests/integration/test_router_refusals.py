"""Bad input harms its sender alone: each gets its status, its field and words, while its neighbours stream on."""

import asyncio
import math

import grpc
import pytest
from headway.v1 import inference_pb2 as api

from services.wire.scheduling import ExplainByIdResponse, RejectReason, SequenceState, SequenceView
from tests.support.fake_scheduler import (
    FINGERPRINT,
    MODEL,
    alphabet,
    ids_of,
    letters,
    rejects,
    silent,
    until,
)
from tests.support.router import bench, failure_of, of_ids, request

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def sampling(**fields) -> api.GenerateRequest:
    return request(sampling=fields)


def stop(**fields) -> api.GenerateRequest:
    return request(stop=fields)


def chat(*messages: tuple[str, str]) -> api.GenerateRequest:
    made = [api.ChatMessage(role=role, content=[api.Part(text=text)]) for role, text in messages]
    return api.GenerateRequest(chat=api.ChatPrompt(messages=made))


def resume(*ids: int, **fields) -> api.GenerateRequest:
    fingerprint = fields.pop("fingerprint", FINGERPRINT)
    return request(resume=api.Resume(token_ids=ids, seed=1, fingerprint=fingerprint), **fields)


BAD = {
    "no prompt": (api.GenerateRequest(), "prompt"),
    "empty text": (request(""), "parts.parts"),
    "no parts": (request(parts=api.PartsPrompt()), "parts.parts"),
    "no messages": (chat(), "chat.messages"),
    "unknown role": (chat(("<end>", "x")), "chat.messages[0].role"),
    "prompt longer than the model": (request("x" * 5000), "parts"),
    "prompt longer than the pool": (request("x" * 1025), "prompt"),
    "prompt that fills the pool": (request("x" * 1024), "prompt"),
    "prompt and answer never fit": (request("x" * 1000, max_tokens=25), "stop.max_tokens"),
    "max_tokens 0": (request(max_tokens=0), "stop.max_tokens"),
    "max_tokens negative": (request(max_tokens=-1), "stop.max_tokens"),
    "min_tokens above max_tokens": (request(max_tokens=2, stop={"min_tokens": 3}), "stop.min_tokens"),
    "min_tokens negative": (stop(min_tokens=-1), "stop.min_tokens"),
    "min_tokens above the default": (stop(min_tokens=21), "stop.min_tokens"),
    "n 0": (request(n=0), "n"),
    "n 17": (request(n=17), "n"),
    "n negative": (request(n=-1), "n"),
    "temperature NaN": (sampling(temperature=math.nan), "sampling.temperature"),
    "temperature inf": (sampling(temperature=math.inf), "sampling.temperature"),
    "temperature negative": (sampling(temperature=-0.1), "sampling.temperature"),
    "top_p 0": (sampling(top_p=0), "sampling.top_p"),
    "top_p 2": (sampling(top_p=2), "sampling.top_p"),
    "top_p NaN": (sampling(top_p=math.nan), "sampling.top_p"),
    "top_k -5": (sampling(top_k=-5), "sampling.top_k"),
    "min_p 2": (sampling(min_p=2), "sampling.min_p"),
    "repetition_penalty 0": (sampling(repetition_penalty=0), "sampling.repetition_penalty"),
    "presence_penalty NaN": (sampling(presence_penalty=math.nan), "sampling.presence_penalty"),
    "frequency_penalty -inf": (sampling(frequency_penalty=-math.inf), "sampling.frequency_penalty"),
    "token id negative": (of_ids(1, -1), "parts.parts[0].token_ids.ids[1]"),
    "token id outside": (of_ids(300), "parts.parts[0].token_ids.ids[0]"),
    "bias outside": (sampling(logit_bias={300: 1.0}), "sampling.logit_bias[300]"),
    "bias negative id": (sampling(logit_bias={-1: 1.0}), "sampling.logit_bias[-1]"),
    "bias NaN": (sampling(logit_bias={1: math.nan}), "sampling.logit_bias[1]"),
    "bias too many": (sampling(logit_bias=dict.fromkeys(range(2000), 1.0)), "sampling.logit_bias"),
    "allowed outside": (sampling(allowed_token_ids=[5, 300]), "sampling.allowed_token_ids[1]"),
    "banned outside": (sampling(banned_token_ids=[-7]), "sampling.banned_token_ids[0]"),
    "nothing left to draw": (sampling(allowed_token_ids=[5], banned_token_ids=[5]), "sampling.allowed_token_ids"),
    "10,000 stop strings": (stop(strings=["x"] * 10_000), "stop.strings"),
    "stop string empty": (stop(strings=["a", ""]), "stop.strings[1]"),
    "stop string long": (stop(strings=["é" * 129]), "stop.strings[0]"),
    "stop tokens too many": (stop(token_ids=range(65)), "stop.token_ids"),
    "stop token outside": (stop(token_ids=[300]), "stop.token_ids[0]"),
    "logprobs 6": (request(output={"logprobs": 6}), "output.logprobs"),
    "logprobs -1": (request(output={"logprobs": -1}), "output.logprobs"),
    "prompt_logprobs 6": (request(output={"prompt_logprobs": 6}), "output.prompt_logprobs"),
    "5 MB of text": (request("x" * 5_000_000), "parts"),
    "label key empty": (request(labels={"": "x"}), "labels"),
    "label value long": (request(labels={"k": "x" * 257}), "labels[k]"),
    "labels too many": (request(labels={str(k): "" for k in range(9)}), "labels"),
    "request id with spaces": (request(request_id="a b"), "request_id"),
    "request id long": (request(request_id="x" * 129), "request_id"),
    "latency class": (request(latency_class="a b"), "latency_class"),
    "deadline NaN": (request(deadline_s=math.nan), "deadline_s"),
    "resume of two answers": (resume(1, n=2), "resume"),
    "resume without fingerprint": (resume(1, fingerprint=""), "resume.fingerprint"),
    "resume with bad token": (resume(300), "resume.token_ids[0]"),
    "resume longer than max_tokens": (resume(5, 5, 5, max_tokens=2), "resume.token_ids"),
    "resume past its end": (resume(0, 5), "resume.token_ids"),
    "resume with another seed": (resume(5, sampling={"seed": 2}), "resume.seed"),
}


async def test_bad_input_harms_its_sender_alone():
    """Every bad request is refused by field, in words without internals, while three healthy streams do not change."""
    async with bench() as made:
        made.scheduler.scripts = {f"healthy-{k}": alphabet(gap_s=0.002) for k in range(3)}
        healthy = [
            asyncio.ensure_future(made.client.generate(request(request_id=f"healthy-{k}", max_tokens=1000)))
            for k in range(3)
        ]
        await until(lambda: made.scheduler.num_live == 3)
        wrong = {}
        for name, (message, field) in BAD.items():
            failure = await made.client.refused(message, timeout=20)
            if (failure.code, failure.field) != (INVALID, field):
                wrong[name] = failure
            assert not any(word in failure.message for word in ("/", "Traceback", "services.", "127.0.0.1")), name
        assert wrong == {}
        assert len(made.scheduler.submits) == 3
        assert not any(task.done() for task in healthy), "the healthy streams were to outlive the bad requests"
        for heard in await asyncio.gather(*healthy):
            assert heard.text == letters(0, 1000)


@pytest.mark.parametrize(
    ("message", "code", "reason"),
    [
        (request(grammar=api.Grammar(regex="a+")), grpc.StatusCode.UNIMPLEMENTED, "GRAMMAR_UNSUPPORTED"),
        (request(adapter="mine"), grpc.StatusCode.NOT_FOUND, "ADAPTER_UNKNOWN"),
        (request(model="other"), grpc.StatusCode.NOT_FOUND, "MODEL_UNKNOWN"),
        (resume(5, fingerprint="beef"), grpc.StatusCode.FAILED_PRECONDITION, "MODEL_CHANGED"),
        (request(deadline_s=0), grpc.StatusCode.DEADLINE_EXCEEDED, ""),
        (request(deadline_s=-math.inf), grpc.StatusCode.DEADLINE_EXCEEDED, ""),
    ],
)
async def test_other_refusals_have_their_own_status(message, code, reason):
    """What is not there, not built or too late is told apart from what is malformed."""
    async with bench() as made:
        failure = await made.client.refused(message)
        assert (failure.code, failure.reason) == (code, reason)


async def test_an_unknown_model_is_told_which_are_served():
    """NOT_FOUND for a model lists the served ones; the served name itself is accepted."""
    async with bench() as made:
        assert MODEL in (await made.client.refused(request(model="gpt"))).message
        assert (await made.client.generate(request(model=MODEL, max_tokens=1))).text == "a"


@pytest.mark.parametrize("method", ["Generate", "Complete", "Tokenize", "Explain", "Abort"])
@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x0a\x02\xc3\x28", b"\x0a\xff\xff\xff\xff\x0f"])
async def test_bytes_that_are_no_message_are_the_senders_fault(method, data):
    """Malformed protobuf and text that is not UTF-8 end INVALID_ARGUMENT, not INTERNAL."""
    async with bench() as made:
        path = f"/headway.v1.Inference/{method}"
        streams = method == "Generate"
        call = (made.client.channel.unary_stream if streams else made.client.channel.unary_unary)(path)(data)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await (call.read() if streams else call)
        failure = failure_of(caught.value)
        assert failure.code == INVALID
        assert "UTF-8" in failure.message


async def test_more_tokens_than_a_request_may_have_are_not_made_text():
    """Detokenize has the limit of all requests."""
    async with bench() as made:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await made.client.stub.Detokenize(api.DetokenizeRequest(token_ids=[5] * 1025))
        failure = failure_of(caught.value)
        assert (failure.code, failure.field) == (INVALID, "token_ids")
        await made.client.stub.Detokenize(api.DetokenizeRequest(token_ids=[5] * 1024))


async def test_a_deadline_beyond_all_time_harms_nobody():
    """A deadline that no clock can tell is none, and the stream to the scheduler goes on."""
    async with bench() as made:
        for deadline_s in (9.3e12, 1e13, 1e300):
            message = request(max_tokens=2, deadline_s=deadline_s)
            assert (await made.client.generate(message, timeout=10)).text == "ab"


async def test_a_message_dear_to_parse_is_not_parsed():
    """Megabytes of empty submessages are refused by field before they hold up everyone for as long as parsing takes."""
    async with bench() as made:
        message = request("x", stop={"strings": [""] * 2_000_000})
        failure = await made.client.refused(message, timeout=20)
        assert (failure.code, failure.field) == (INVALID, "stop")


async def test_nothing_of_a_request_is_kept_while_it_is_answered():
    """A live stream holds neither the bytes nor the message of its request."""
    async with bench() as made:
        made.scheduler.script = silent
        call = made.client.stub.Generate(request("x" * 500, request_id="only-here"))
        await until(lambda: made.scheduler.num_live == 1)
        frames = [task.get_coro() for task in asyncio.all_tasks()]
        held = [value for frame in frames for value in _held_by(frame)]
        assert not any(isinstance(value, api.GenerateRequest) for value in held)
        assert not any(isinstance(value, bytes) and b"only-here" in value for value in held)
        call.cancel()


def _held_by(coroutine) -> list:
    """The local variables of a coroutine of the router and of all that it awaits."""
    held = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is not None and "/services/router/" in frame.f_code.co_filename:
            held += frame.f_locals.values()
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return held


async def test_a_message_over_the_limit_is_refused_by_the_library():
    """A message too large to be read at all ends RESOURCE_EXHAUSTED, not in a hang."""
    async with bench() as made:
        failure = await made.client.refused(request("x" * 9_000_000), timeout=20)
        assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_metadata_over_the_limit_is_refused():
    """A call whose metadata is too large ends RESOURCE_EXHAUSTED, and its connection goes on."""
    async with bench() as made:
        failure = await made.client.refused(request(), metadata=[("x-large", "x" * 40_000)], timeout=20)
        assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await made.client.generate(request(max_tokens=1))).text == "a"


async def test_a_live_request_id_cannot_be_taken_twice():
    """A second request with a live id is refused; once the first has ended the id is free."""
    async with bench() as made:
        made.scheduler.scripts["mine"] = silent
        call = made.client.stub.Generate(request(request_id="mine"))
        await until(lambda: made.scheduler.num_live == 1)
        failure = await made.client.refused(request(request_id="mine"))
        assert (failure.code, failure.reason) == (grpc.StatusCode.ALREADY_EXISTS, "DUPLICATE_REQUEST_ID")
        call.cancel()
        await until(lambda: made.server.intake.num_live == 0)
        made.scheduler.scripts.clear()
        assert (await made.client.generate(request(request_id="mine", max_tokens=1))).text == "a"


async def test_abort_and_explain_of_an_unknown_id():
    """An id that is nobody's is NOT_FOUND; one that came through another router is asked of the schedulers."""
    async with bench() as made:
        for method, kind in (
            (made.client.stub.Abort, api.AbortRequest),
            (made.client.stub.Explain, api.ExplainRequest),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method(kind(request_id="nobody"))
            assert (caught.value.code(), failure_of(caught.value).reason) == (
                grpc.StatusCode.NOT_FOUND,
                "REQUEST_UNKNOWN",
            )
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method(kind(request_id=""))
            assert failure_of(caught.value).field == "request_id"
        view = SequenceView(
            answer_index=1, state=SequenceState.WAITING, queue_position=4, waiting_for="kv_blocks",
            estimated_start_us=2_500_000,
        )  # fmt: skip
        made.scheduler.views["elsewhere"] = ExplainByIdResponse(sequences=(view,))
        explained = await made.client.stub.Explain(api.ExplainRequest(request_id="elsewhere"))
        answer = explained.answers[0]
        assert (answer.index, answer.state, answer.queue_position) == (1, api.REQUEST_STATE_WAITING, 4)
        assert (answer.waiting_for, answer.estimated_start_s) == ("kv_blocks", 2.5)
        await made.client.stub.Abort(api.AbortRequest(request_id="elsewhere"))
        assert made.scheduler.cancelled_by_id == ["nobody", "elsewhere"]


async def test_abort_ends_a_stream_with_what_it_has():
    """Abort ends a live answer with the reason ABORTED and the tokens so far, and the scheduler is told."""
    async with bench() as made:

        async def script(session, submit):
            await session.tokens(submit, ids_of("ab"))

        made.scheduler.script = script
        stream = asyncio.ensure_future(made.client.generate(request(request_id="mine")))
        await until(lambda: made.server.intake.find("", "mine"))
        await until(lambda: [answer.num_accepted for answer in made.server.intake.find("", "mine").answers] == [2])
        await made.client.stub.Abort(api.AbortRequest(request_id="mine"))
        heard = await stream
        assert heard.text == "ab"
        assert heard.finished.reason == api.FINISH_REASON_ABORTED
        await until(lambda: made.scheduler.cancels)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (RejectReason.QUEUE_FULL, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (RejectReason.QUOTA, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (RejectReason.NEVER_FITS, INVALID),
        (RejectReason.INVALID, INVALID),
        (RejectReason.GRAMMAR, INVALID),
        (RejectReason.DUPLICATE_ID, grpc.StatusCode.ALREADY_EXISTS),
        (RejectReason.DEADLINE, grpc.StatusCode.DEADLINE_EXCEEDED),
        (RejectReason.EXECUTOR_UNAVAILABLE, grpc.StatusCode.UNAVAILABLE),
        (RejectReason.DRAINING, grpc.StatusCode.UNAVAILABLE),
        (RejectReason.MODEL_CHANGED, grpc.StatusCode.UNAVAILABLE),
        (RejectReason.POISONOUS, grpc.StatusCode.INTERNAL),
        (RejectReason.FAILED, grpc.StatusCode.INTERNAL),
        (RejectReason.UNSPECIFIED, grpc.StatusCode.INTERNAL),
    ],
)
async def test_each_reject_reason_has_its_status(reason, code):
    """A scheduler's rejection reaches the client with its status, field and time to come back."""
    async with bench() as made:
        made.scheduler.script = rejects(reason, field="stop.max_tokens", retry_after_us=1_500_000)
        failure = await made.client.refused(request())
        assert failure.code == code
        assert failure.field == ("stop.max_tokens" if code == INVALID else "")
        if code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE):
            assert failure.retry_after_s == 1.5


async def test_too_many_live_requests_are_refused_with_a_delay():
    """At the router's own bound a request is refused with a time to come back, and health still answers."""
    async with bench(max_live_requests=2) as made:
        made.scheduler.script = silent
        calls = [made.client.stub.Generate(request()) for _ in range(2)]
        await until(lambda: made.scheduler.num_live == 2)
        failure = await made.client.refused(request())
        assert (failure.code, failure.retry_after_s) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 1.0)
        for call in calls:
            call.cancel()


async def test_a_refused_call_stays_retryable():
    """A refusal comes without initial metadata, so that gRPC's own retries still may send the call again."""
    async with bench() as made:
        answers = iter([rejects(RejectReason.DRAINING), rejects(RejectReason.DRAINING), alphabet()])

        async def script(session, submit):
            await next(answers)(session, submit)

        made.scheduler.script = script
        retries = (
            '{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.01s", '
            '"maxBackoff": "0.1s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}'
        )
        options = [("grpc.service_config", retries)]
        async with grpc.aio.insecure_channel(made.server.address, options=options) as channel:
            call = channel.unary_stream("/headway.v1.Inference/Generate")(request(max_tokens=2).SerializeToString())
            assert await call.read() is not grpc.aio.EOF
        assert len(made.scheduler.submits) == 3


async def test_a_fault_in_a_handler_is_internal_and_says_nothing(monkeypatch):
    """A bug of ours ends the call INTERNAL in neutral words; the next call is served."""
    async with bench() as made:

        def broken(*_):
            raise KeyError("/secret/path")

        monkeypatch.setattr("services.router.intake.check_prompt_size", broken)
        failure = await made.client.refused(request())
        assert (failure.code, failure.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL_ERROR")
        assert "secret" not in failure.message
        monkeypatch.undo()
        assert (await made.client.generate(request(max_tokens=1))).text == "a"


async def test_a_fault_in_one_sequence_spares_the_others(monkeypatch):
    """A bug in the handling of one sequence's tokens ends it INTERNAL; the link and its other sequences go on."""
    async with bench() as made:
        made.scheduler.scripts["healthy"] = alphabet(gap_s=0.01)
        healthy = asyncio.ensure_future(made.client.generate(request(request_id="healthy", max_tokens=50)))

        async def script(session, submit):
            await session.tokens(submit, [299])  # no such token in the tokenizer
            await session.finish(submit, 2)

        made.scheduler.script = script

        def broken(self, _finished):
            if self._request.request_id != "healthy":
                raise ZeroDivisionError
            raise AssertionError("not before the healthy one ends")

        with monkeypatch.context() as patch:
            patch.setattr("services.router.answer.Answer.take_finished", broken)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await made.client.generate(request())
        assert caught.value.code() == grpc.StatusCode.INTERNAL
        assert (await healthy).text == letters(0, 50)
