"""Served models and their cache."""

import grpc
import pytest
from headway.v1 import inference_pb2 as api

from services.router.served_model import ModelCache
from services.router.text.errors import UnusableModel
from services.runtime.errors import Refusal
from tests.support.fake_model import fake_card, ids_of
from tests.support.router import request


async def test_one_fingerprint_is_one_tokenizer():
    """Cards that differ in numerics alone share their text; another fingerprint has its own; few are remembered."""
    cache = ModelCache(max_prompt_bytes=1000)
    assert cache.find("f00d", "d1") is None
    first = await cache.get(fake_card())
    assert await cache.get(fake_card()) is first
    other_numerics = await cache.get(fake_card(numerics_digest="d2"))
    assert other_numerics is not first
    assert other_numerics.text is first.text
    assert (await cache.get(fake_card(fingerprint="beef"))).text is not first.text
    assert cache.find("f00d", "d1") is first


async def test_what_cannot_be_tokenized_is_the_clients_field():
    """The text package's errors become refusals that name the field."""
    model = await ModelCache(max_prompt_bytes=1000).get(fake_card(chat_template=""))
    assert (await model.render(request("hi"))).tolist() == ids_of("hi")
    chat = api.ChatPrompt(messages=[api.ChatMessage(role="user", content=[api.Part(text="hi")])])
    with pytest.raises(Refusal, match="no usable chat template") as caught:
        await model.render(api.GenerateRequest(chat=chat))
    assert caught.value.code == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(Refusal, match="token_ids"):
        await model.detokenize(api.DetokenizeRequest(token_ids=[-1]))


async def test_a_card_without_a_tokenizer_is_unusable():
    """A model whose card cannot be used is not remembered."""
    cache = ModelCache(max_prompt_bytes=1000)
    with pytest.raises(UnusableModel):
        await cache.get(fake_card(tokenizer_json="{}"))
    assert cache.find("f00d", "d1") is None


async def test_a_tokenizer_that_fails_on_a_request_ends_that_request(monkeypatch):
    """INTERNAL, in words that tell nothing of the tokenizer; the next request is answered."""
    model = await ModelCache(max_prompt_bytes=1000).get(fake_card())

    def fail(*_, **__):
        raise UnusableModel("the tokenizer fails on this text: /models/secret")

    with monkeypatch.context() as broken:
        broken.setattr(model.text._renderer, "render", fail)
        broken.setattr(model.text._detokenizers, "decode", fail)
        for failing in (model.render(request("hi")), model.detokenize(api.DetokenizeRequest(token_ids=[1]))):
            with pytest.raises(Refusal) as caught:
                await failing
            assert caught.value.code == grpc.StatusCode.INTERNAL
            assert "secret" not in caught.value.message
    assert (await model.render(request("hi"))).tolist() == ids_of("hi")
