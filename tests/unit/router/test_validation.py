"""Validation: what is accepted, and how defaults and edges are read. What is refused: test_router_refusals."""

import math

import numpy as np
import pytest
from headway.v1 import inference_pb2 as api
from hypothesis import given
from hypothesis import strategies as st

from services.router.limits import Limits
from services.router.sampling_checks import check_sampling, check_token_ids
from services.router.settings import RouterSettings
from services.router.validation import (
    check_model,
    check_prompt_size,
    check_request,
    check_time_left,
    fit_length,
)
from services.runtime.errors import Refusal
from services.wire.scheduling import SchedulerHello
from tests.support.fake_model import VOCAB_SIZE, fake_card
from tests.support.router import request

CARD = fake_card()
HELLO = SchedulerHello(pool_tokens=2048, max_request_tokens=1024, default_max_tokens=20, block_size=16)
LIMITS = Limits.of(CARD, HELLO, RouterSettings())


def checked(message: api.GenerateRequest):
    return check_request(message, CARD, LIMITS, "id")


def test_unset_fields_are_the_documented_defaults():
    """Unset is not zero: temperature 1, everything else off, a drawn seed, one answer."""
    first, second = checked(request()), checked(request())
    sampling = first.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (1.0, 1.0, 0, 0.0)
    assert (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty) == (1.0, 0.0, 0.0)
    assert (sampling.logprobs, sampling.prompt_logprobs, sampling.min_tokens) == (-1, -1, 0)
    assert (first.max_tokens, first.n, first.skip_special_tokens, first.include_stop_string) == (-1, 1, True, False)
    assert first.resume_ids is None
    assert first.seed != second.seed


@pytest.mark.parametrize(
    "message",
    [
        request(sampling={"temperature": 0}),
        request(sampling={"temperature": 100}),
        request(sampling={"top_p": 1}),
        request(sampling={"top_p": 1e-6}),
        request(sampling={"top_k": -1}),
        request(sampling={"top_k": 2**31 - 1}),
        request(sampling={"min_p": 1}),
        request(sampling={"repetition_penalty": 100}),
        request(sampling={"presence_penalty": -100, "frequency_penalty": 100}),
        request(sampling={"logit_bias": {0: -100.0, VOCAB_SIZE - 1: 100.0}}),
        request(sampling={"seed": 2**64 - 1}),
        request(max_tokens=1),
        request(max_tokens=0, output={"prompt_logprobs": 0}),
        request(max_tokens=5, stop={"min_tokens": 5}),
        request(n=16),
        request(stop={"strings": ["x" * 256] * 16, "token_ids": range(64)}),
        request(output={"logprobs": 5}),
        request(labels={"k" * 64: "v" * 256}),
        request(request_id="!~" * 64),
        request(priority=-(2**31)),
    ],
)
def test_the_ends_of_the_ranges_are_inside(message):
    """What the contract calls allowed is allowed, to the last value."""
    checked(message)


def test_top_k_off_and_beyond_the_vocabulary():
    """-1 is off like 0, and more than the vocabulary is the vocabulary."""
    for given_k, read in ((-1, 0), (0, 0), (7, 7), (2**31 - 1, VOCAB_SIZE)):
        assert checked(request(sampling={"top_k": given_k})).sampling.top_k == read


def test_logit_bias_is_in_order_of_the_ids():
    """Equal requests give equal columns, whatever the map's order."""
    sampling = checked(request(sampling={"logit_bias": {9: 1.0, 3: -1.0}})).sampling
    assert sampling.bias_ids.tolist() == [3, 9]
    assert sampling.bias_values.tolist() == [-1.0, 1.0]


@given(st.floats(allow_nan=True, allow_infinity=True, width=32))
def test_a_temperature_is_in_range_or_refused(value):
    """No float gets through that is not in [0, 100]."""
    message = request(sampling={"temperature": value})
    if 0 <= value <= 100:
        assert check_sampling(message, LIMITS, CARD.eos_ids).temperature == value
    else:
        with pytest.raises(Refusal, match=r"sampling\.temperature"):
            check_sampling(message, LIMITS, CARD.eos_ids)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20))
def test_token_ids_are_in_the_vocabulary_or_refused(ids):
    """The refusal names the first id that is outside."""
    bad = [at for at, token_id in enumerate(ids) if not 0 <= token_id < VOCAB_SIZE]
    if bad:
        with pytest.raises(Refusal, match=rf"^f\[{bad[0]}\]"):
            check_token_ids("f", ids, VOCAB_SIZE, 100)
    else:
        assert check_token_ids("f", ids, VOCAB_SIZE, 100).tolist() == ids


@given(st.integers(1, 2000), st.integers(-1, 2000))
def test_what_fits_fits_and_what_does_not_is_refused(prompt_tokens, max_tokens):
    """Prompt and answer never pass the limit; an unset max_tokens is clipped, never refused while a token fits."""
    fits = prompt_tokens + (max_tokens if max_tokens >= 0 else 1) <= LIMITS.max_request_tokens
    if not fits:
        with pytest.raises(Refusal):
            fit_length(prompt_tokens, max_tokens, LIMITS)
        return
    room = fit_length(prompt_tokens, max_tokens, LIMITS)
    assert prompt_tokens + room <= LIMITS.max_request_tokens
    assert room == (max_tokens if max_tokens >= 0 else min(20, LIMITS.max_request_tokens - prompt_tokens))


def test_min_tokens_needs_a_token_that_is_no_stop():
    """When only stop tokens may be drawn, min_tokens cannot be kept."""
    only_stops = {"allowed_token_ids": [0, 5]}
    checked(request(sampling=only_stops, stop={"token_ids": [5]}))
    with pytest.raises(Refusal, match=r"stop\.min_tokens"):
        checked(request(sampling=only_stops, stop={"token_ids": [5], "min_tokens": 1}))


def test_all_of_the_vocabulary_cannot_be_banned():
    """A ban list that leaves nothing is refused, one that leaves a token is not."""
    checked(request(sampling={"banned_token_ids": np.arange(1, VOCAB_SIZE).tolist()}))
    with pytest.raises(Refusal, match="banned_token_ids"):
        checked(request(sampling={"banned_token_ids": np.arange(VOCAB_SIZE).tolist()}))


@pytest.mark.parametrize(
    ("own", "call", "left"),
    [(None, None, None), (2.0, None, 2.0), (None, 3.0, 3.0), (2.0, 3.0, 2.0), (9.0, 3.0, 3.0), (math.inf, None, None)],
)
def test_the_nearer_deadline_counts(own, call, left):
    """The time left is the smaller of the request's field and the call's deadline."""
    assert check_time_left(own, call) == left


def test_the_default_model_needs_no_name():
    """The empty name is the default; any other must be served."""
    check_model("", ["a"])
    check_model("a", ["a"])
    with pytest.raises(Refusal, match="served models: a, b"):
        check_model("x" * 10_000, ["a", "b"])


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (api.GenerateRequest(chat=api.ChatPrompt(messages=[api.ChatMessage()] * 2049)), "chat.messages"),
        (request(parts=api.PartsPrompt(parts=[api.Part()] * 4097)), "parts"),
        (request(parts=api.PartsPrompt(parts=[api.Part(token_ids=api.TokenIds(ids=[1] * 1025))])), "parts"),
    ],
)
def test_a_prompt_of_too_many_pieces_is_refused_before_it_is_rendered(message, field):
    """Messages, parts and token ids are counted first."""
    with pytest.raises(Refusal) as caught:
        check_prompt_size(message, LIMITS)
    assert caught.value.message.startswith(f"{field}:")


def test_bytes_are_counted_not_characters():
    """The limit of a prompt is in bytes of UTF-8, over all of its texts together."""
    small = Limits.of(CARD, HELLO, RouterSettings(max_prompt_bytes=10))
    two = api.PartsPrompt(parts=[api.Part(text="ééé"), api.Part(text="éé")])
    check_prompt_size(request(parts=two), small)
    two.parts.add(text="x")
    with pytest.raises(Refusal, match="11 bytes"):
        check_prompt_size(request(parts=two), small)


@pytest.mark.parametrize("seconds", [3.2e7, 1e12, 9.3e12, 1e300, math.inf])
def test_a_deadline_in_years_is_none(seconds):
    """What does not fit into the scheduler's microseconds, or a timer, is no deadline; the call's own still holds."""
    assert check_time_left(seconds, None) is None
    assert check_time_left(seconds, 5.0) == 5.0
