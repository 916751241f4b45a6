"""Text is exact: what streams is what is answered at once, is what all tokens decode to, whatever the text holds.

The simulated model repeats the user's words, one token a byte, so that each test chooses the answer down to the byte.
"""

import pytest
from headway.client import Client
from headway.v1 import inference_pb2 as api

from tests.support.exact_text import converse, three_ways
from tests.support.served import serve

TEXTS = {
    "plain": "The quick brown fox jumps over the lazy dog.",
    "family": "one 👨‍👩‍👧‍👦 family",
    "skin": "👍🏽👍🏿 and 🏳️‍🌈 and 🇰🇷🇫🇷",
    "hangul": "안녕하세요 세계, 한글 자모 ㄱㄴㄷ",
    "decomposed": "e\u0301 \u1112\u1161\u11ab a\u030a",
    "cjk": "天地玄黃，宇宙洪荒。日月盈昃",
    "mixed": "naïve café — “quotes” … 𝒳𝒴𝒵 \U0001f9ec",
    "spaces": "a  b   c\n\n\td \u00a0e\u200bf",
    "specials": "literal <|im_end|> and <|im_start|>user",
}
OTHERS = ("family", "hangul", "cjk")  # "mixed" has characters of two, three and four bytes


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of one simulated server for the whole file."""
    quick = {"HEADWAY_EXECUTOR_SIMULATED_STEP_FIXED_US": "200"}
    with serve(tmp_path_factory.mktemp("exact"), environment=quick) as served, Client(served.address) as connected:
        yield connected


def repeated(client, text, **params):
    """The model's answer to a user who says `text`, proven to be one text in three ways: (text, tokens, finished)."""
    return three_ways(client, [{"role": "user", "content": text}], **params)


@pytest.mark.parametrize("name", TEXTS)
def test_the_stream_the_unary_answer_and_the_full_decode_are_one_text(client, name):
    """No character is split, doubled or lost."""
    text, token_ids, finished = repeated(client, TEXTS[name])
    assert text == TEXTS[name]
    assert finished.reason == api.FINISH_REASON_STOP_TOKEN
    assert client.detokenize(token_ids) == text
    assert token_ids[-1] == finished.stop_token_id


@pytest.mark.parametrize("name", ["mixed", *(pytest.param(name, marks=pytest.mark.deep) for name in OTHERS)])
def test_max_tokens_may_cut_inside_a_character_at_every_place(client, name):
    """The tail of a cut character is not lost: it decodes as the full decode has it."""
    packed = TEXTS[name].encode()
    for max_tokens in range(1, len(packed) + 1):
        text, token_ids, finished = repeated(client, TEXTS[name], max_tokens=max_tokens)
        assert bytes(token_ids) == packed[:max_tokens]
        assert text == client.detokenize(token_ids) == packed[:max_tokens].decode(errors="replace")
        assert finished.reason == api.FINISH_REASON_LENGTH


@pytest.mark.parametrize(
    ("text", "stops", "kept", "found"),
    [
        ("one two three four", ["two"], "one ", "two"),
        ("one two three four", ["wo th"], "one t", "wo th"),  # begins and ends mid-word, spans words
        ("abcabd abce", ["abce"], "abcabd ", "abce"),  # starts twice and does not complete
        ("aaaaab", ["aab"], "aaa", "aab"),  # overlaps itself
        ("say stop and stopped", ["stopped", "stop"], "say ", "stop"),  # one is a prefix of the other
        ("say stopped", ["stopped", "stop it"], "say ", "stopped"),
        ("안녕하세요 세계", ["하세"], "안녕", "하세"),
        ("a 👨‍👩‍👧‍👦 b", ["\u200d👩"], "a 👨", "\u200d👩"),  # inside a joined emoji
        ("no match at all, sto", ["stop"], "no match at all, sto", None),  # held back, then given
        ("xyz", ["x"], "", "x"),  # at once
    ],
)
def test_a_stop_string_ends_the_answer_where_it_begins(client, text, stops, kept, found):
    """Found over several tokens, mid-token, overlapping, or begun and never completed: the text ends just before it."""
    answered, token_ids, finished = repeated(client, text, stop=stops)
    assert answered == kept
    if found is None:
        assert finished.reason == api.FINISH_REASON_STOP_TOKEN
        return
    assert finished.reason == api.FINISH_REASON_STOP_STRING
    assert finished.stop_string == found
    assert bytes(token_ids).decode() == kept + found  # usage counts what was computed and sent, to the end of the stop
    with_stop, _, _ = repeated(client, text, stop=stops, include_stop_string=True)
    assert with_stop == kept + found


def test_a_sixteen_turn_conversation_finds_its_history_in_the_prefix_cache(client):
    """Each turn renders what was said before to identical tokens, so that the cache covers the history."""
    said = [f"turn {turn}: {TEXTS['hangul']} {TEXTS['family']} <|im_end|>" for turn in range(16)]
    converse(client, "You repeat.", [(text, {}) for text in said])
