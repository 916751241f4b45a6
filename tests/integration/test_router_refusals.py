"""Bad input harms its sender alone: each gets its status, its field and words, while its neighbours stream on."""

import asyncio
import math

import grpc
import pytest
from headway.v1 import inference_pb2 as api

from tests.support.fake_model import FINGERPRINT, MODEL, letters
from tests.support.fake_scheduler import until
from tests.support.router import bench, failure_of, of_ids, request
from tests.support.scripts import alphabet

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
