"""Text is exact with the default model too: a tokenizer whose tokens are words, and pieces of characters."""

import pytest
from headway.client import Client
from headway.v1 import inference_pb2 as api

from tests.support.exact_text import converse, three_ways
from tests.support.served import serve

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

FORCED = {
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "hangul": "안녕하세요 세계",
    "cjk": "天地玄黃，宇宙洪荒。",
}
QUESTION = [{"role": "user", "content": "Count from one to twenty in words."}]
GREEDY = {"temperature": 0.0, "max_tokens": 16}


@pytest.fixture(scope="module")
def client(tmp_path_factory, default_model):
    """A client of one server of the default model for the whole file."""
    folder = tmp_path_factory.mktemp("text")
    with serve(folder, "--model", str(default_model), fake=False) as served, Client(served.address) as connected:
        yield connected


@pytest.fixture(scope="module")
def counted(client):
    """The model's greedy answer to the question: its text, and where in it each of its tokens ends."""
    answer = client.complete(QUESTION, **GREEDY)
    ends = [len(client.detokenize(answer.token_ids[:count])) for count in range(len(answer.token_ids) + 1)]
    assert ends == sorted(set(ends)), "each token of this answer is to be whole characters"
    return answer.text, ends


def cut_at(client, name, max_tokens):
    """An answer of nothing but pieces of the named text's characters, cut; whether it was cut inside a character."""
    allowed = sorted(set(client.tokenize(FORCED[name], add_special_tokens=False)))
    params = {"temperature": 1.0, "seed": max_tokens, "ignore_eos": True, "allowed_token_ids": allowed}
    text, token_ids, finished = three_ways(client, "Say: ", max_tokens=max_tokens, **params)
    assert len(token_ids) == max_tokens
    assert set(token_ids) <= set(allowed)
    assert text == client.detokenize(token_ids)
    assert finished.reason == api.FINISH_REASON_LENGTH
    return text.endswith("\ufffd")


@pytest.mark.parametrize("name", FORCED)
def test_characters_of_several_tokens_are_cut_and_lose_nothing(client, name):
    """Drawn from the tokens of emoji, Hangul or CJK alone: stream, unary and full decode are one text at each cut."""
    assert client.detokenize(client.tokenize(FORCED[name], add_special_tokens=False)) == FORCED[name]
    for max_tokens in (1, 2, 5):
        cut_at(client, name, max_tokens)


@pytest.mark.deep
def test_many_cuts_of_characters_of_several_tokens(client):
    """The same at every third length to 16; some of these cuts are inside a character."""
    inside = [cut_at(client, name, max_tokens) for name in FORCED for max_tokens in range(1, 17, 3)]
    assert any(inside)
    assert not all(inside)


def stop_strings(text, ends, firsts, spans):
    """Stop strings that begin inside a token and end inside the one that is `span` further."""
    for first in firsts:
        for span in spans:
            start, end = ends[first] + 1, ends[first + span] + 1
            if start < ends[first + 1] and text.find(text[start:end]) == start:
                yield text[start:end], start


def check_stops(client, counted, firsts, spans):
    """Each stop string ends the answer where it begins; one that is never completed changes nothing."""
    text, ends = counted
    found = list(stop_strings(text, ends, firsts, spans))
    for stop, start in found:
        kept, token_ids, finished = three_ways(client, QUESTION, stop=[stop + "\x01", stop], **GREEDY)
        assert kept == text[:start]
        assert (finished.reason, finished.stop_string) == (api.FINISH_REASON_STOP_STRING, stop)
        assert ends[len(token_ids) - 1] < start + len(stop) <= ends[len(token_ids)]
    whole, _, _ = three_ways(client, QUESTION, stop=[stop + "\x01" for stop, _ in found[:16]], **GREEDY)
    assert whole == text
    return len(found)


def test_stop_strings_that_begin_inside_a_token_and_span_several(client, counted):
    """Cut from the model's own answer, over 2, 3 and 4 tokens: the text ends where the string begins."""
    ends = counted[1]
    first = next(place for place in range(2, len(ends)) if ends[place + 1] - ends[place] > 2)
    assert check_stops(client, counted, firsts=[first], spans=[1, 2, 3]) >= 2


@pytest.mark.deep
def test_stop_strings_at_several_places_of_an_answer(client, counted):
    """The same from other tokens of the answer."""
    assert check_stops(client, counted, firsts=range(1, 12, 3), spans=[1, 2, 3]) >= 5


def sixteen_turns(max_tokens):
    return [
        (f"{turn}: 안녕 👍🏽 <|im_end|>", {"max_tokens": max_tokens, "temperature": 0.8, "seed": turn})
        for turn in range(16)
    ]


def test_a_sixteen_turn_conversation_finds_its_history_in_the_prefix_cache(client):
    """Each of 16 turns of short answers is found whole by the next, emoji and forged control tokens included."""
    converse(client, "You are brief.", sixteen_turns(max_tokens=3))


@pytest.mark.deep
def test_a_sixteen_turn_conversation_of_longer_answers(client):
    """The same with answers of up to 14 tokens, most of them cut."""
    converse(client, "You are brief.", sixteen_turns(max_tokens=14))
