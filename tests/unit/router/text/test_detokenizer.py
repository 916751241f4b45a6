"""Incremental detokenization: deltas joined are the full decode, whatever the tokens and wherever they are cut."""

import codecs
import functools

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from services.router.text.detokenizer import REPLACEMENT, Detokenizers
from services.router.text.tokenizer import Tokenizer
from tests.unit.router.text import models

MADE = {"bytes": models.byte_level_json, "fallback": models.spm_json, "window": models.word_json}
TEXTS = [
    "hello world",
    "family 👩‍👩‍👧‍👦 and 👍🏽 and 🇰🇷!",
    "안녕하세요, 한글 낱자 ㅎㅏㄴ, 각",
    "你好，世界𠮷𠮷",
    " leading and  double  spaces ",
    "mixed 🙂 text\n\n\twith ünïcödé",
]


@functools.cache
def family(kind):
    """A tokenizer, its detokenizers, and the library's own."""
    tokenizer = Tokenizer(models.card(MADE[kind]()))
    return tokenizer, Detokenizers(tokenizer), tokenizers.Tokenizer.from_str(MADE[kind]())


def deltas(detokenizer, token_ids):
    """What is given out after each token, and at the end."""
    return [*map(detokenizer.push, token_ids), detokenizer.finish()]


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("kind", ["bytes", "fallback"])
@given(data=st.data())
def test_deltas_of_random_tokens_are_the_full_decode(kind, skip, data):
    """Any sequence of tokens at all, ill-formed UTF-8, control tokens and ids that are no tokens among them."""
    _, detokenizers, library = family(kind)
    ids = st.integers(0, library.get_vocab_size() + 3) | st.integers(0, 262)
    token_ids = data.draw(st.lists(ids, max_size=30))
    expected = library.decode(token_ids, skip_special_tokens=skip)
    assert "".join(deltas(detokenizers.new(skip_special_tokens=skip), token_ids)) == expected
    assert detokenizers.decode(token_ids, skip_special_tokens=skip) == expected


@given(st.binary(max_size=40))
@example(b"\xe2\x82\xf0\x9f\x98\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xff")
def test_ill_formed_bytes_are_replaced_as_the_library_does(octets):
    """One U+FFFD for each maximal ill-formed part: the incremental decoder and the library agree on the number."""
    tokenizer, detokenizers, library = family("bytes")
    alphabet = {
        detokenizers._of_bytes[i]: i for i in range(library.get_vocab_size()) if i not in tokenizer.control_id_set
    }
    token_ids = [alphabet[bytes([octet])] for octet in octets]
    assert (
        "".join(deltas(detokenizers.new(), token_ids)) == library.decode(token_ids) == octets.decode("utf-8", "replace")
    )


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["bytes", "fallback"])
def test_no_delta_splits_a_character(kind, text):
    """Real text comes out whole, and no delta holds a replacement character."""
    tokenizer, detokenizers, library = family(kind)
    token_ids = tokenizer.encode(text)
    given_out = deltas(detokenizers.new(), token_ids)
    assert "".join(given_out) == text == library.decode(token_ids)
    assert not any(REPLACEMENT in delta for delta in given_out)


@pytest.mark.parametrize("kind", ["bytes", "fallback"])
@pytest.mark.parametrize("text", TEXTS)
def test_an_answer_cut_inside_a_character_keeps_its_tail(kind, text):
    """At whatever token the answer is cut, the end gives out exactly what the full decode shows for the broken rest."""
    tokenizer, detokenizers, library = family(kind)
    token_ids = tokenizer.encode(text)
    for length in range(len(token_ids) + 1):
        cut = token_ids[:length]
        assert "".join(deltas(detokenizers.new(), cut)) == library.decode(cut)


def test_a_byte_level_delta_holds_back_an_unfinished_character_only():
    """Everything before it is given out at once."""
    tokenizer, detokenizers, library = family("bytes")
    detokenizer = detokenizers.new()
    token_ids = tokenizer.encode("abc한🙂d𠮷")
    utf8 = codecs.getincrementaldecoder("utf-8")()
    for token_id in token_ids:
        assert detokenizer.push(token_id) == utf8.decode(detokenizers._of_bytes[token_id])
    assert detokenizer.finish() == ""
    assert library.get_vocab_size() > len(token_ids)


@given(st.data())
def test_spaces_are_stripped_from_the_start_of_an_answer_only(data):
    """One where the first text has one; none later, whatever came first."""
    _, detokenizers, library = family("fallback")
    words = [token_id for token, token_id in library.get_vocab().items() if len(token) < 4]
    token_ids = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=6))
    assert "".join(deltas(detokenizers.new(), token_ids)) == library.decode(token_ids)


def test_a_run_of_byte_tokens_is_given_out_when_it_ends():
    """Byte fallback shows a character when a token that is no byte follows, or the answer ends."""
    tokenizer, detokenizers, _ = family("fallback")
    token_ids = tokenizer.encode("a한b")
    assert deltas(detokenizers.new(), token_ids)[-6:] == ["a", "", "", "", "한b", ""]
    assert deltas(detokenizers.new(), token_ids[:-1])[-5:] == ["a", "", "", "", "한"]


@pytest.mark.parametrize("between", [1, 990])
def test_what_shows_nothing_does_not_end_a_run_of_bytes(between):
    """A skipped control token, or an id that is no token, may come inside a character."""
    tokenizer, detokenizers, library = family("fallback")
    first, *rest = tokenizer.encode("한")[-3:]
    token_ids = [first, between, *rest]
    assert "".join(deltas(detokenizers.new(), token_ids)) == library.decode(token_ids) == "한"
    shown = "".join(deltas(detokenizers.new(skip_special_tokens=False), token_ids))
    assert shown == library.decode(token_ids, skip_special_tokens=False)


@given(st.lists(st.integers(0, 12), max_size=60), st.booleans())
def test_the_window_gives_the_full_decode(token_ids, skip):
    """A decoder of no known form is followed through its last tokens."""
    _, detokenizers, library = family("window")
    expected = library.decode(token_ids, skip_special_tokens=skip)
    assert "".join(deltas(detokenizers.new(skip_special_tokens=skip), token_ids)) == expected


def test_the_window_stays_small():
    """Its cost per token does not grow with the answer, even when no token shows any text."""
    _, detokenizers, _ = family("window")
    for token_id in (0, 1):
        detokenizer = detokenizers.new()
        for _ in range(500):
            detokenizer.push(token_id)
        assert len(detokenizer._window) <= 40
