from dataclasses import replace

import pytest

from services.cli.bench.lengths import Lengths
from services.cli.bench.named import SHAPES, named
from services.cli.bench.workload import Pace, Shape, generate, text_of
from services.runtime.lifecycle import BadSetting

SHORT = Lengths.of("uniform:2:5")


def shape(**fields):
    fields = {"pace": Pace(concurrency=4), "num_requests": 12} | fields
    return Shape(name="mine", input_lengths=SHORT, output_lengths=Lengths.of("3"), **fields)


def test_the_same_seed_gives_the_same_requests():
    """Everything is drawn from the seed and the number of the repeat."""
    assert generate(shape(), seed=5) == generate(shape(), seed=5)
    assert generate(shape(), seed=5) != generate(shape(), seed=6)


def test_the_first_request_of_seed_0_stays_what_it_is():
    """Results of different releases compare only while a seed means the same requests."""
    first = generate(named("W1"), seed=0).requests[0]
    assert (len(first.prompt), first.output_tokens) == (112, 256)
    assert first.text.split()[:4] == ["system", "turn", "had", "which"]


def test_a_repeat_draws_other_words():
    """So the prefix cache that a repeat leaves behind does not help the next."""
    first, second = (generate(shape(num_requests=40), seed=5, repeat=repeat) for repeat in (0, 1))
    assert not {request.prompt for request in first.requests} & {request.prompt for request in second.requests}


def test_lengths_do_not_depend_on_the_pace():
    """Equally long, whether they arrive open or closed; the words differ, or the second would find the first's in a cache."""
    closed, open_ = generate(shape(), seed=1), generate(shape(pace=Pace(rate_per_s=3.0)), seed=1)
    for measure in (lambda each: len(each.prompt), lambda each: each.output_tokens):
        assert [measure(each) for each in closed.requests] == [measure(each) for each in open_.requests]
    assert not {each.prompt for each in closed.requests} & {each.prompt for each in open_.requests}
    assert open_.requests[-1].arrival_s == 4.0
    assert {each.arrival_s for each in closed.requests} == {0.0}


def test_a_shared_prefix_begins_every_prompt():
    """It comes before the request's own words."""
    requests = generate(shape(shared_prefix_tokens=7), seed=1).requests
    assert len({request.prompt[:7] for request in requests}) == 1
    assert {request.shared_tokens for request in requests} == {7}
    assert {len(request.prompt) for request in requests} <= {9, 10, 11, 12}


def test_turns_make_conversations():
    """Requests of one conversation follow each other; the prefix is said once, and later turns have lengths of their own."""
    made = generate(shape(turns=3, shared_prefix_tokens=2, turn_lengths=Lengths.of("9")), seed=1)
    conversations = made.conversations
    assert [len(each) for each in conversations] == [3, 3, 3, 3]
    assert [request.turn for request in conversations[2]] == [0, 1, 2]
    assert [request.shared_tokens for request in conversations[2]] == [2, 0, 0]
    assert [len(request.prompt) for request in conversations[2]][1:] == [9, 9]
    assert {request.conversation for request in conversations[2]} == {2}


def test_single_requests_are_conversations_of_one():
    """Then a person has one thing to say."""
    assert [[each.index for each in said] for said in generate(shape(), seed=1).conversations] == [
        [n] for n in range(12)
    ]


def test_a_prompt_is_words_or_token_ids():
    """Both are the same numbers."""
    request = generate(shape(), seed=1).requests[0]
    assert text_of(bytes([0, 1, 2])) == "the of and"
    assert len(request.text.split()) == len(request.prompt)
    assert request.token_ids(1000) == [1000 + word for word in request.prompt]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_requests": 0}, "at least one request"),
        ({"turns": 5}, "no whole number of conversations"),
        ({"turns": 3, "pace": Pace(rate_per_s=1.0)}, "a turn waits for the answer before it"),
        ({"shared_prefix_tokens": -1}, "prefix"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(fields, words):
    """The words say what to change."""
    with pytest.raises(BadSetting, match=words):
        shape(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"concurrency": 1, "users": 1},
        {"rate_per_s": float("inf")},
        {"rate_per_s": float("nan")},
        {"users": 1, "think_s": -1.0},
        {"users": 1, "think_s": float("nan")},
        {"rate_per_s": 1.0, "burstiness": 0.0},
    ],
)
def test_a_pace_is_one_thing(fields):
    """Closed, users or open; not two of them, and nothing below zero."""
    with pytest.raises(BadSetting):
        Pace(**fields)


def test_at_a_rate_requests_arrive_for_as_long_as_asked():
    """The number of requests follows from rate and duration; conversations become single requests."""
    open_ = replace(shape(), turns=3).at_rate(2.5, 10.0)
    assert (open_.num_requests, open_.turns, open_.pace) == (25, 1, Pace(rate_per_s=2.5))
    assert shape().at_rate(0.01, 10.0).num_requests == 1


def test_the_named_workloads_are_those_of_the_project():
    """W1 64 at once; W2 one stream of 128 and 128; W3 for 60 s at 1, 2, 4; W4 512 shared and 32; W5 16 times 8 turns."""
    w1 = generate(named("w1"), seed=0).requests
    assert len(w1) == SHAPES["W1"].pace.concurrency == 64
    assert all(64 <= len(each.prompt) <= 256 and 16 <= each.output_tokens <= 256 for each in w1)
    w2 = generate(named("W2"), seed=0)
    assert (w2.pace.concurrency, {(len(each.prompt), each.output_tokens) for each in w2.requests}) == (1, {(128, 128)})
    for rate_per_s in (1, 2, 4):
        w3 = generate(named("W3", rate_per_s), seed=0).requests
        assert (len(w3), w3[-1].arrival_s) == (60 * rate_per_s, 60.0)
    w4 = generate(named("W4"), seed=0)
    assert {(len(each.prompt), each.shared_tokens, each.output_tokens) for each in w4.requests} == {(544, 512, 32)}
    w5 = generate(named("W5"), seed=0)
    assert [len(each) for each in w5.conversations] == [8] * 16


def test_a_name_that_is_none_is_refused():
    """The words say which there are."""
    with pytest.raises(BadSetting, match="there are W1, W2"):
        named("W9")
