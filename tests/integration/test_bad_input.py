"""Bad input harms its sender alone, over the whole stack: three healthy streams run on, token for token."""

import asyncio
import math
import re

import grpc
import pytest
from headway.client import AsyncClient, DeadlineExceeded, HeadwayError, RetryPolicy
from headway.v1 import inference_pb2 as api

from tests.support.served import serve

SETTINGS = {
    "HEADWAY_EXECUTOR_SIMULATED_SCRIPT": "random",
    "HEADWAY_EXECUTOR_SIMULATED_STEP_FIXED_US": "8000",
    "HEADWAY_EXECUTOR_SIMULATED_NUM_BLOCKS": "128",  # 2,048 tokens, fewer than the model's context
}
MOST_TOKENS = 2048 + 1  # the last token of an answer is never computed
INTERNALS = re.compile(r"/\w+/|\.py\b|Traceback|services\.|\w+Error\b|127\.0\.0\.1|unix:|grpc|zmq|0x[0-9a-f]{6}")
NOT_UTF8 = b"\x22\x06\x0a\x04\x0a\x02\xc3\x28"  # GenerateRequest.parts.parts[0].text of two bytes that are no character
INVALID = grpc.StatusCode.INVALID_ARGUMENT
NO_RETRY = RetryPolicy(max_attempts=1)

NUM_TOKENS = 200  # 1.6 s of steps, ten times what all the refusals take
HEALTHY = [
    {"max_tokens": NUM_TOKENS, "ignore_eos": True, "seed": 9, "temperature": 0.0},
    {"max_tokens": NUM_TOKENS, "ignore_eos": True, "seed": 10, "temperature": 0.8, "logprobs": 2},
    {"max_tokens": NUM_TOKENS, "ignore_eos": True, "seed": 11, "temperature": 1.0},
]


def bad_requests(limits):
    """By name: prompt, parameters, the field that the refusal must name, words of its message."""
    beyond = limits.vocab_size
    return {
        "empty text": ("", {}, "parts.parts", "empty"),
        "no token ids": ([], {}, "parts.parts", "empty"),
        "longer than the model": ([5] * (limits.context_length + 1), {}, "parts", f"{limits.max_request_tokens}"),
        "longer than the pool": ([5] * 3000, {}, "parts", f"{MOST_TOKENS}"),
        "fills the pool": ([5] * MOST_TOKENS, {}, "prompt", f"{MOST_TOKENS}"),
        "never fits": ([5] * 1000, {"max_tokens": 1500}, "stop.max_tokens", f"{MOST_TOKENS}"),
        "max_tokens 0": ([5], {"max_tokens": 0}, "stop.max_tokens", "prompt"),
        "max_tokens negative": ([5], {"max_tokens": -1}, "stop.max_tokens", "0"),
        "n 0": ([5], {"n": 0}, "n", "1"),
        "temperature NaN": ([5], {"temperature": math.nan}, "sampling.temperature", "0"),
        "temperature inf": ([5], {"temperature": math.inf}, "sampling.temperature", "0"),
        "temperature negative": ([5], {"temperature": -1.0}, "sampling.temperature", "0"),
        "top_p 0": ([5], {"top_p": 0.0}, "sampling.top_p", "1"),
        "top_p 2": ([5], {"top_p": 2.0}, "sampling.top_p", "1"),
        "top_k -5": ([5], {"top_k": -5}, "sampling.top_k", "-1"),
        "token id negative": ([5, -1], {}, "parts.parts[0].token_ids.ids[1]", "-1"),
        "token id beyond": ([beyond], {}, "parts.parts[0].token_ids.ids[0]", f"{beyond}"),
        "bias beyond": ([5], {"logit_bias": {beyond: 1.0}}, f"sampling.logit_bias[{beyond}]", f"{beyond}"),
        "bias negative": ([5], {"logit_bias": {-1: 1.0}}, "sampling.logit_bias[-1]", "-1"),
        "10,000 stops": ([5], {"stop": [f"s{k}" for k in range(10_000)]}, "stop.strings", f"{limits.max_stop_strings}"),
        "1.5 MB of text": ("x" * 1_500_000, {}, "parts", f"{limits.max_prompt_bytes}"),
        "5 MB of text": ("x" * 5_000_000, {}, "parts", "at most"),
        "half a surrogate pair": ("a\ud800", {}, "parts", "surrogate"),
    }


def drawn(logprobs):
    return [(each.token_id, each.logprob, each.rank, [*each.top]) for each in logprobs]


class Healthy:
    """The three streams, and all that each has given."""

    def __init__(self, client):
        self.given = [([], [], []) for _ in HEALTHY]
        self._client = client

    async def run(self):
        async with asyncio.TaskGroup() as group:
            for number in range(len(HEALTHY)):
                group.create_task(self._collect(number))
        return self.given

    async def _collect(self, number):
        token_ids, logprobs, texts = self.given[number]
        async with self._client.generate([60 + number] * 10, timeout_s=90, **HEALTHY[number]) as stream:
            async for delta in stream:
                token_ids += delta.token_ids
                logprobs += drawn(delta.logprobs)
                texts.append(delta.text)

    async def until_all_run(self):
        while not all(token_ids for token_ids, _, _ in self.given):
            await asyncio.sleep(0.01)


async def refusal(client, prompt, **params):
    """The error that answers a request; fails where there is an answer."""
    with pytest.raises(HeadwayError) as caught:
        await client.complete(prompt, **{"timeout_s": 30, **params})
    return caught.value


async def refuse_what_is_malformed(client, limits):
    """Each bad request has its status, its field and its words; all that do not are named at once."""
    wrong = {}
    for name, (prompt, params, field, words) in bad_requests(limits).items():
        error = await refusal(client, prompt, **params)
        named = [violation.field for violation in error.violations]
        said = " ".join([str(error), *(violation.description for violation in error.violations)])
        if (error.code, named) != (INVALID, [field]) or words not in said or INTERNALS.search(said):
            wrong[name] = (error.code, named, said)
    assert wrong == {}


async def refuse_what_is_late_unknown_or_doubled(client, model):
    """Each has a status of its own, and what its sender can act on."""
    late = await refusal(client, [5], timeout_s=1e-9)
    assert isinstance(late, DeadlineExceeded)
    unknown = await refusal(client, [5], model="gpt-9")
    assert (unknown.code, model.name in str(unknown)) == (grpc.StatusCode.NOT_FOUND, True)
    with pytest.raises(HeadwayError) as nobody:
        await client.abort("nobody")
    assert nobody.value.code is grpc.StatusCode.NOT_FOUND
    async with client.generate([7], request_id="twice", max_tokens=300, ignore_eos=True, timeout_s=60) as first:
        before = (await anext(first)).token_ids
        doubled = await refusal(client, [7], request_id="twice")
        assert doubled.code is grpc.StatusCode.ALREADY_EXISTS
        after = (await anext(first)).token_ids
        assert before
        assert after, "the first of that name is to go on"
    for error in (late, unknown, nobody.value, doubled):
        assert not INTERNALS.search(str(error)), error


async def refuse_bytes_that_are_no_message(address):
    """Text that is not UTF-8, and bytes that are no message at all, are their sender's mistake."""
    async with grpc.aio.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        for method, sent in (("Complete", NOT_UTF8), ("Tokenize", NOT_UTF8), ("Complete", b"\xff" * 40)):
            with pytest.raises(grpc.RpcError) as caught:
                await channel.unary_unary(f"/headway.v1.Inference/{method}")(sent, timeout=30)
            assert caught.value.code() is INVALID, (method, caught.value)
            assert not INTERNALS.search(caught.value.details()), caught.value.details()


async def serve_what_only_looks_bad(client):
    """One token, and no token but the prompt's logprobs, are good requests."""
    one = await client.complete([5], max_tokens=1, ignore_eos=True, timeout_s=30)
    assert (len(one.token_ids), one.finished.reason) == (1, api.FINISH_REASON_LENGTH)
    none = await client.complete([5, 6, 7], max_tokens=0, prompt_logprobs=1, timeout_s=30)
    assert (none.token_ids, none.finished.usage.completion_tokens) == ((), 0)
    rows = none.response.prompt_logprobs
    assert [row.token_id for row in rows] == [5, 6, 7]
    assert [row.HasField("logprob") for row in rows] == [False, True, True]


async def test_bad_input_harms_its_sender_alone(tmp_path):
    """The issue's whole list, sent while three streams run: each is refused by field and in words, no stream changes."""
    with serve(tmp_path, environment=SETTINGS) as served:
        children = served.children()
        async with AsyncClient(served.address, retry=NO_RETRY) as client:
            model = await client.model()
            assert model.limits.max_request_tokens == MOST_TOKENS < model.limits.context_length
            calm = await Healthy(client).run()
            beside = Healthy(client)
            async with asyncio.TaskGroup() as group:
                running = group.create_task(beside.run())
                await beside.until_all_run()
                await refuse_what_is_malformed(client, model.limits)
                await refuse_what_is_late_unknown_or_doubled(client, model)
                await refuse_bytes_that_are_no_message(served.address)
                await serve_what_only_looks_bad(client)
                assert not running.done(), "the healthy streams were to outlive the bad requests"
            for was, now in zip(calm, beside.given, strict=True):
                assert now[0] == was[0]
                assert now[1] == was[1]
                assert "".join(now[2]) == "".join(was[2])
        assert [len(token_ids) for token_ids, _, _ in calm] == [NUM_TOKENS] * 3
        assert [len(logprobs) for _, logprobs, _ in calm] == [0, NUM_TOKENS, 0]
        assert served.children() == children, served.said()
