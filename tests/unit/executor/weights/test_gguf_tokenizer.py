"""Tokenizers out of GGUF give the tokens of known-good ones."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from services.executor.weights.errors import MalformedModel, UnsupportedModel
from services.executor.weights.gguf_tokenizer import special_tokens, tokenizer_json
from tests.unit.executor.weights import factory

TEXTS = [
    "Hello, world!",
    " leading and trailing ",
    "two  spaces,   three    four\n\n\nlines\r\n\ttabs\t\t",
    "def f(x: int) -> int:\n    return x ** 2 + 1  # squared\n",
    "12345 67 8.9 1,000,000",
    "I'm you're he'd they'll we've 'S",
    "👩‍👩‍👧‍👦 🇰🇷 👍🏽 ❤️",
    "안녕하세요, 세계! 각",
    "漢字かな交じり文。中文、标点",
    "Ünïcödé é ñ naïve",
    "مرحبا שלום नमस्ते ไทย",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "a<|im_end|>b <repo_name> < |im_start|>",
    "\x00\x01\u200b\ufeff\u2028",
    "supercalifragilisticexpialidocious" * 3,
    "",
]


DIGITS_OF_ASCII = st.characters(exclude_categories=("Nd", "Nl", "No", "Cs"), include_characters="0123456789")


@pytest.mark.model
@pytest.mark.parametrize("text", TEXTS)
def test_the_default_models_tokens_are_those_of_transformers(default_tokenizers, text: str) -> None:
    """Encoding equals transformers' conversion of the file, and decoding gives the text back."""
    ours, reference = default_tokenizers
    ids = ours.encode(text).ids
    assert ids == reference(text)["input_ids"]
    assert ours.decode(ids, skip_special_tokens=False) == reference.decode(ids, clean_up_tokenization_spaces=False)


@pytest.mark.model
@given(st.text(DIGITS_OF_ASCII, max_size=80))
def test_any_text_has_the_tokens_of_transformers(default_tokenizers, text: str) -> None:
    """The same holds for any text whose digits are ASCII: of others, transformers' conversion keeps runs whole."""
    ours, reference = default_tokenizers
    assert ours.encode(text).ids == reference(text)["input_ids"]


@pytest.mark.model
def test_the_default_model_splits_digits(default_tokenizers) -> None:
    """SmolLM2 was trained on single digits, a space before them apart."""
    ours, _ = default_tokenizers
    assert ours.encode("in 2048").tokens == ["in", "Ġ", "2", "0", "4", "8"]
    assert len(ours.pre_tokenizer.pre_tokenize_str("\uff13\uff14\xb2")) == 3


def byte_level(pre: str, **more: Any) -> dict[str, Any]:
    """Metadata of the factory's byte-level tokenizer."""
    model = json.loads(factory.byte_tokenizer().to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 257,
    } | {f"tokenizer.ggml.{name}": value for name, value in more.items()}


def pieces(pre: str, text: str) -> list[str]:
    tokenizer = Tokenizer.from_str(tokenizer_json(byte_level(pre)))
    return [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("pre", "wanted"),
    [
        ("gpt-2", ["it", "'s", "Ġ1234", "Ġ", "Ġab", "!", "Ċ"]),
        ("default", ["it", "'s", "Ġ1234", "Ġ", "Ġab", "!", "Ċ"]),
        ("smollm", ["it", "'s", "Ġ", "1", "2", "3", "4", "Ġ", "Ġab", "!", "Ċ"]),
        ("llama-bpe", ["it", "'s", "Ġ", "123", "4", "Ġ", "Ġab", "!Ċ"]),
        ("qwen2", ["it", "'s", "Ġ", "1", "2", "3", "4", "Ġ", "Ġab", "!Ċ"]),
        ("tekken", ["it", "'s", "Ġ", "1", "2", "3", "4", "Ġ", "Ġab", "!Ċ"]),
    ],
)
def test_each_pre_tokenizer_splits_in_its_own_way(pre: str, wanted: list[str]) -> None:
    """Digits, contractions and newlines are cut as the models were trained."""
    assert pieces(pre, "it's 1234  ab!\n") == wanted


def test_qwen_splits_as_transformers_own_class() -> None:
    """The Qwen2 pattern equals that of transformers' Qwen2 tokenizer, also in composing characters."""
    from transformers import Qwen2Tokenizer

    metadata = byte_level("qwen2")
    ours = Tokenizer.from_str(tokenizer_json(metadata))
    vocab = {token: token_id for token_id, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    reference = Qwen2Tokenizer(vocab=vocab, merges=merges)
    for text in TEXTS:
        if "<|" not in text:
            assert ours.encode(text).ids == reference(text)["input_ids"], text


def test_added_tokens_are_special_by_their_type() -> None:
    """Control tokens are special, user-defined ones are matched whole and stay text, others are ordinary."""
    metadata = byte_level("gpt-2")
    kinds = [1] * len(metadata["tokenizer.ggml.tokens"])
    kinds[256], kinds[257] = 3, 4
    tokenizer = Tokenizer.from_str(tokenizer_json(metadata | {"tokenizer.ggml.token_type": kinds}))
    ids = tokenizer.encode("a<|im_start|>b<|im_end|>").ids
    assert (256 in ids, 257 in ids, len(ids)) == (True, True, 4)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "ab<|im_end|>"
    assert special_tokens(metadata) == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}


@pytest.mark.parametrize(
    ("pre", "flags", "wanted"),
    [
        ("gpt-2", {}, [0]),
        ("gpt-2", {"add_bos_token": True}, [256, 0]),
        ("gpt-2", {"add_bos_token": True, "add_eos_token": True}, [256, 0, 257]),
        ("llama-bpe", {}, [256, 0]),
        ("llama-bpe", {"add_bos_token": False}, [0]),
    ],
)
def test_bos_and_eos_are_added_where_the_file_says(pre: str, flags: dict[str, bool], wanted: list[int]) -> None:
    """A text gets BOS and EOS by the file's flags, or by the habit of its pre-tokenizer."""
    tokenizer = Tokenizer.from_str(tokenizer_json(byte_level(pre, **flags)))
    assert tokenizer.encode("!").ids == wanted
    assert tokenizer.encode("!", add_special_tokens=False).ids == [0]


PIECES = {
    "▁": -1.0, "h": -20.0, "e": -21.0, "l": -22.0, "o": -23.0, "w": -24.0, "r": -25.0, "d": -26.0,
    "he": -9.0, "ll": -8.0, "hell": -6.0, "▁hell": -5.5, "▁w": -7.0, "or": -6.5, "▁wor": -5.0, "ld": -9.5, "▁world": -4.0,
    "▁▁": -3.0, "lo": -3.5, "hel": -10.0,
}  # fmt: skip


def sentencepiece(**more: Any) -> dict[str, Any]:
    """Metadata of a small SentencePiece vocabulary with byte fallback."""
    bytes_ = [f"<0x{value:02X}>" for value in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_, *PIECES]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + list(PIECES.values()),
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(PIECES),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    } | {f"tokenizer.ggml.{name}": value for name, value in more.items()}


def by_definition(text: str) -> list[str]:
    """SentencePiece's BPE as defined: join, again and again, the neighbours that make the best piece, leftmost first."""
    parts = list(("▁" + text.replace(" ", "▁")) if text else "")
    while True:
        joins = [(-PIECES[a + b], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in PIECES]
        if not joins:
            break
        at = min(joins)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    fallback = lambda part: [f"<0x{value:02X}>" for value in part.encode()]  # noqa: E731
    return [token for part in parts for token in ([part] if part in PIECES else fallback(part))]


@given(st.text(alphabet="helowrd é漢👍", max_size=30))
def test_sentencepiece_merges_by_score_with_byte_fallback(text: str) -> None:
    """Tokens equal the definition of SentencePiece's BPE, characters outside the vocabulary fall back to bytes."""
    tokenizer = SENTENCEPIECE
    encoding = tokenizer.encode(text)
    assert encoding.tokens == ["<s>", *by_definition(text)]
    assert tokenizer.decode(encoding.ids) == text


SENTENCEPIECE = Tokenizer.from_str(tokenizer_json(sentencepiece()))


def test_sentencepiece_has_a_prefix_space_unless_the_file_says_no() -> None:
    """add_space_prefix false leaves text as it is."""
    bare = Tokenizer.from_str(tokenizer_json(sentencepiece(add_space_prefix=False)))
    assert bare.encode("hell", add_special_tokens=False).tokens == ["hell"]
    assert bare.decode(bare.encode(" hell").ids) == " hell"
    assert SENTENCEPIECE.encode("hell", add_special_tokens=False).tokens == ["▁hell"]


def test_byte_pieces_cannot_be_spelled() -> None:
    """Text that looks like a byte piece stays text."""
    assert 3 + 0x0A not in SENTENCEPIECE.encode("<0x0A>").ids


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"model": "t5"}, UnsupportedModel, "'t5'.*gpt2, llama"),
        ({"pre": "weird"}, UnsupportedModel, "'weird'.*smollm"),
        ({"pre": None}, MalformedModel, "pre is missing"),
        ({"tokens": None}, MalformedModel, "tokens is missing"),
        ({"tokens": ["a", "a"]}, MalformedModel, "same token twice"),
        ({"tokens": ["a", 1]}, MalformedModel, "list of str"),
        ({"merges": ["q zz"]}, MalformedModel, "'q zz' does not join"),
        ({"merges": ["he"]}, MalformedModel, "does not join"),
        ({"token_type": [1]}, MalformedModel, "1 items for"),
        ({"bos_token_id": 5000}, MalformedModel, "bos_token_id is 5000"),
    ],
)
def test_a_bad_vocabulary_is_refused(change: dict[str, Any], error: type[Exception], words: str) -> None:
    """What contradicts itself or is not known is refused by name."""
    changed = {f"tokenizer.ggml.{name}": value for name, value in change.items()}
    metadata = byte_level("gpt-2", add_bos_token=True) | changed
    with pytest.raises(error, match=words):
        tokenizer_json(metadata)


def test_monstrous_pieces_are_refused() -> None:
    """Pieces too long for a vocabulary are refused instead of searched for merges."""
    metadata = sentencepiece()
    tokens, scores, kinds = (metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type"))
    long = {"tokens": [*tokens, "x" * 100_000], "scores": [*scores, 0.0], "token_type": [*kinds, 1]}
    with pytest.raises(MalformedModel, match="too long"):
        tokenizer_json(sentencepiece(**long))
