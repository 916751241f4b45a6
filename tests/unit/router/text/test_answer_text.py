"""The text of an answer: the same however its tokens are grouped, ended at the exact token, resumed at any token."""

import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.router.text.answer_text import AnswerText, AnswerUpdate, StopRules
from services.router.text.detokenizer import Detokenizers
from services.router.text.stop_strings import StopStrings
from services.router.text.tokenizer import Tokenizer
from tests.unit.router.text import models

KINDS = {"bytes": models.byte_level_json, "fallback": models.spm_json}
TEXT = "hello there 👩‍👩‍👧‍👦 안녕하세요 the end 世界 of it<|im_"


@functools.cache
def made(kind):
    tokenizer = Tokenizer(models.card(KINDS[kind]()))
    return tokenizer, Detokenizers(tokenizer)


def answer(kind, strings=(), **rules):
    return AnswerText(made(kind)[1].new(), StopRules(StopStrings(strings), **rules))


def whole(kind, tokens, *arguments, **rules):
    """The unary answer: all tokens at once, then the end."""
    text = answer(kind, *arguments, **rules)
    update = text.push(tokens)
    return joined([update, text.finish()])


def joined(updates):
    """Many updates as one."""
    last = next((update for update in updates if update.ended), AnswerUpdate())
    text = "".join(update.text for update in updates)
    return AnswerUpdate(text, sum(update.accepted for update in updates), last.stop_string, last.stop_token_id)


def grouped(token_ids, cuts):
    """`token_ids` in runs that end at `cuts`."""
    edges = [0, *sorted({cut % (len(token_ids) + 1) for cut in cuts}), len(token_ids)]
    return [token_ids[start:end] for start, end in itertools.pairwise(edges)]


STRINGS = st.lists(
    st.sampled_from(["the", "th", "he", "한", "하세", "🙂", "\u200d", " of", "<|im_end|>", "\ufffd", "ab"])
)
IDS = st.lists(st.integers(0, 560), max_size=25) | st.integers(0, 60).map(lambda n: made("bytes")[0].encode(TEXT)[:n])


@pytest.mark.parametrize("kind", KINDS)
@given(
    token_ids=IDS,
    cuts=st.lists(st.integers(0, 100)),
    strings=STRINGS,
    rules=st.fixed_dictionaries({"min_tokens": st.integers(0, 12), "token_ids": st.frozensets(st.integers(0, 560))}),
)
def test_deltas_are_the_unary_answer_however_tokens_are_grouped(kind, token_ids, cuts, strings, rules):
    """Text, accepted tokens and reason do not depend on the groups."""
    streamed = answer(kind, strings, **rules)
    updates = [streamed.push(group) for group in grouped(token_ids, cuts)]
    assert joined([*updates, streamed.finish()]) == whole(kind, token_ids, strings, **rules)


@pytest.mark.parametrize("kind", KINDS)
@given(token_ids=IDS, strings=STRINGS, minimum=st.integers(0, 12), prefix=st.integers(0, 25))
def test_a_primed_answer_goes_on_where_the_lost_one_stopped(kind, token_ids, strings, minimum, prefix):
    """What a client got for a prefix, and what the resumed answer adds, are the whole answer."""
    before, after = token_ids[:prefix], token_ids[prefix:]
    lost, resumed = answer(kind, strings, min_tokens=minimum), answer(kind, strings, min_tokens=minimum)
    received = lost.push(before)
    primed = resumed.prime(before)
    assert (primed.text, primed.accepted, primed.ended) == ("", received.accepted, received.ended)
    rest = joined([resumed.push(after), resumed.finish()])
    unary = whole(kind, token_ids, strings, min_tokens=minimum)
    assert received.text + rest.text == unary.text
    assert resumed.num_tokens == unary.accepted


@pytest.mark.parametrize("string", ["there", "ello the", "lo", "👩‍👧", "세요 t", "end"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_string_ends_at_the_token_that_completes_it(kind, string):
    """Over several tokens or inside one: no token fewer shows it, and later tokens are not accepted."""
    tokenizer, detokenizers = made(kind)
    token_ids = tokenizer.encode(TEXT)
    update = answer(kind, [string]).push(token_ids)
    assert update.stop_string == string
    assert update.text == TEXT[: TEXT.index(string)]
    partial = detokenizers.new()
    shown = ["".join(map(partial.push, [token_id])) for token_id in token_ids]
    completing = next(n for n in range(len(shown) + 1) if string in "".join(shown[:n]))
    assert update.accepted == completing


def test_a_stop_token_is_counted_but_not_shown():
    """Its text is left out even where control tokens are shown; what was held back before it is not lost."""
    tokenizer, detokenizers = made("bytes")
    end = tokenizer.control_ids["<|im_end|>"]
    rules = StopRules(StopStrings(["worldly"]), token_ids=frozenset({end}))
    text = AnswerText(detokenizers.new(skip_special_tokens=False), rules)
    ids = tokenizer.encode("hello world")
    update = text.push([*ids, end, *ids])
    assert update == AnswerUpdate("hello world", len(ids) + 1, stop_token_id=end)
    assert text.push(ids) == AnswerUpdate()
    assert text.finish() == AnswerUpdate()


def test_a_stop_token_inside_a_character_shows_the_broken_rest():
    """The tail is not lost."""
    tokenizer, _ = made("bytes")
    end = tokenizer.control_ids["<|im_end|>"]
    ids = tokenizer.encode("a𠮷")[:-1]
    assert answer("bytes", token_ids=frozenset({end})).push([*ids, end]).text == "a\ufffd"


def test_no_stop_string_is_heeded_before_min_tokens():
    """The token that completes it must be the min_tokens-th or a later one."""
    tokenizer, _ = made("bytes")
    ids = [token for word in "x!" * 6 for token in tokenizer.encode(word)]
    for minimum in range(len(ids)):
        update = answer("bytes", ["x!"], min_tokens=minimum).push(ids)
        assert update.accepted == max(2, minimum + minimum % 2)
        assert update.text == "x!" * (update.accepted // 2 - 1)


def test_the_end_can_complete_a_stop_string():
    """A replaced half character is text like any other."""
    tokenizer, _ = made("bytes")
    ids = tokenizer.encode("a𠮷")[:-1]
    text = answer("bytes", ["\ufffd"])
    assert text.push(ids).text == "a"
    assert text.finish() == AnswerUpdate("", 0, stop_string="\ufffd")
