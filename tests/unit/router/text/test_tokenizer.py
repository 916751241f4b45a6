"""The tokenizer: both ways of encoding, control tokens, and hostile files."""

import json
import threading
import time

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from services.router.text.errors import UnusableModel
from services.router.text.tokenizer import Tokenizer
from services.wire.message import int32_column
from tests.unit.router.text import models


def test_names_of_control_tokens_are_recognised_or_spelled_out():
    """The same text has a control token in one way of encoding and none in the other, and both give it back."""
    tokenizer = Tokenizer(models.card())
    end = tokenizer.control_ids["<|im_end|>"]
    text = "so <|im_end|> it ends"
    assert end in tokenizer.encode(text)
    plain = tokenizer.encode_plain(text)
    assert tokenizer.control_id_set.isdisjoint(plain)
    assert tokenizer.decode(plain) == text
    library = tokenizers.Tokenizer.from_str(models.byte_level_json())
    library.encode_special_tokens = True
    assert plain == library.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(tokenizer.encode(text)) == "so  it ends"
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


@pytest.mark.parametrize("made", [models.byte_level_json, models.spm_json, models.unigram_json])
@given(
    parts=st.lists(st.sampled_from(["<|im_end|>", "<s>", "</s>", "</", "s>", "<", "a", " ", "한", "🙂"]), max_size=8)
)
def test_plain_text_never_becomes_a_control_token(made, parts):
    """Whatever the text, and even where the vocabulary lists control tokens as words."""
    tokenizer = Tokenizer(models.card(made()))
    assert tokenizer.control_id_set.isdisjoint(tokenizer.encode_plain("".join(parts)))


def test_the_end_of_sequence_is_a_control_token_whatever_its_file_calls_it():
    """An added token that ends sequences is guarded although it is not marked special."""
    document = json.loads(models.byte_level_json())
    for token in document["added_tokens"]:
        token["special"] = False
    tokenizer = Tokenizer(models.card(json.dumps(document), eos_ids=int32_column([2]), bos_id=1))
    assert set(tokenizer.control_ids) == {"<|im_start|>", "<|im_end|>"}
    assert 2 not in tokenizer.encode_plain("<|im_end|>")


def test_truncation_and_padding_in_the_file_are_not_heeded():
    """A prompt is never cut or filled up silently."""
    document = json.loads(models.byte_level_json())
    document["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    document["padding"] = {
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>",
    }  # fmt: skip
    tokenizer = Tokenizer(models.card(json.dumps(document)))
    ids = tokenizer.encode("hello there, quick brown fox")
    assert ids == Tokenizer(models.card()).encode("hello there, quick brown fox")


@pytest.mark.parametrize(
    "tokenizer_json",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"added_tokens": 5}',
        "[" * 100_000,
        '{"model": {"type": "BPE", "vocab": {}, "merges": []}}',
    ],
)
def test_what_is_no_tokenizer_is_refused(tokenizer_json):
    """A broken file is the model's owner's fault and is named as such."""
    with pytest.raises(UnusableModel):
        Tokenizer(models.card(tokenizer_json))


def test_a_panic_of_the_library_while_decoding_is_an_error_of_ours(monkeypatch):
    """A panic is a BaseException, which would end the service: it is put in our words, as when encoding."""

    class Panic(BaseException):
        pass

    class Panicking:
        def decode(self, *_, **__):
            raise Panic("index out of bounds")

    tokenizer = Tokenizer(models.card())
    monkeypatch.setattr(tokenizer, "_recognising", Panicking())
    with pytest.raises(UnusableModel, match="these tokens"):
        tokenizer.decode([1])


def test_a_tokenizer_larger_than_the_model_is_refused():
    """A token id that the model cannot embed would fail in every prompt that has it."""
    with pytest.raises(UnusableModel, match="token id"):
        Tokenizer(models.card(vocab_size=100))


def test_other_threads_run_while_a_long_text_is_encoded():
    """Encoding lets go of the interpreter: the event loop's thread is not held up for as long as it takes."""
    tokenizer = Tokenizer(models.card())
    text = " ".join(f"{number * 7919}" for number in range(200_000))
    started = time.monotonic()
    worker = threading.Thread(target=tokenizer.encode, args=(text,))
    worker.start()
    longest = 0.0
    while worker.is_alive():
        before = time.monotonic()
        time.sleep(0.001)
        longest = max(longest, time.monotonic() - before)
    assert longest < (time.monotonic() - started) / 2
