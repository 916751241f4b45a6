"""Requests of the typed client: where each parameter goes, and what none can hold."""

import pytest
from headway.client import Client, InvalidRequest
from headway.v1 import inference_pb2 as v1

from tests.support.fake_inference import FakeInference, answer, reply


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
