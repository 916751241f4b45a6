"""A GGUF file's tokenizer in the `tokenizers` library's JSON format.

Two models are known: 'gpt2' (byte-level BPE with merges) and 'llama' (SentencePiece scores with byte fallback, written as BPE:
a merge's rank is the score of the piece that it makes). Needs neither torch nor numpy.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.executor.weights.errors import MalformedModel
from services.executor.weights.fields import Fields
from services.executor.weights.tokenizers_format import Part, added_token, bpe, byte_level, tokenizer

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_MAX_SPLIT_WORK = 200_000_000  # characters looked at to find merges; a vocabulary of 256 k short pieces needs a tenth
_SPACE = "\u2581"

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_WORD_TAIL}"
_QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_WORD_TAIL}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class _Splitter:
    """How byte-level text is cut before merging; without a pattern, GPT-2's own."""

    pattern: str = ""
    single_digits: bool = False
    normalize: bool = False
    whole_tokens_first: bool = False
    adds_bos: bool = False


_GPT2_SPLIT = _Splitter()
_LLAMA3_SPLIT = _Splitter(_LLAMA3, whole_tokens_first=True, adds_bos=True)
_QWEN2_SPLIT = _Splitter(_QWEN2, normalize=True)
_SPLITTERS = {
    "default": _GPT2_SPLIT,
    "gpt-2": _GPT2_SPLIT,
    "smollm": _Splitter(single_digits=True),
    "llama-bpe": _LLAMA3_SPLIT,
    "llama3": _LLAMA3_SPLIT,
    "llama-v3": _LLAMA3_SPLIT,
    "qwen2": _QWEN2_SPLIT,
    "deepseek-r1-qwen": _QWEN2_SPLIT,
    "tekken": _Splitter(_TEKKEN, whole_tokens_first=True, adds_bos=True),
}


def tokenizer_json(metadata: Mapping[str, Any]) -> str:
    """The tokenizer as `Tokenizer.from_str` of the `tokenizers` library reads it.

    Raises:
        UnsupportedModel: a tokenizer model or a way of splitting text that is not known.
        MalformedModel: the vocabulary contradicts itself.
    """
    fields = Fields(metadata, "GGUF", prefix="tokenizer.ggml.")
    make = _MODELS[fields.one_of("model", _MODELS)]
    return json.dumps(make(fields, metadata, _Vocabulary(fields, metadata)), ensure_ascii=False)


def special_tokens(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens that chat templates know by name."""
    tokens = _list_of(metadata, "tokens", str)
    fields = Fields(metadata, "GGUF", prefix="tokenizer.ggml.")
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    found = {name: fields.token_ids(f"{key}_token_id", len(tokens)) for name, key in names.items()}
    return {name: tokens[ids[0]] for name, ids in found.items() if ids}


class _Vocabulary:
    """The tokens of the file, their ids, and what kind each is."""

    def __init__(self, fields: Fields, metadata: Mapping[str, Any]) -> None:
        self.fields = fields
        self.tokens: list[str] = _list_of(metadata, "tokens", str)
        self.ids = {token: token_id for token_id, token in enumerate(self.tokens)}
        if not self.tokens or len(self.ids) != len(self.tokens):
            raise MalformedModel("GGUF: the vocabulary is empty or has the same token twice")
        self.kinds: Sequence[int] = [_NORMAL] * len(self.tokens)
        if "token_type" in fields:
            self.kinds = _list_of(metadata, "token_type", int, len(self.tokens))

    def added_tokens(self) -> list[Part]:
        """Tokens that are matched as a whole: control tokens are special, user-defined ones are plain text."""
        matched_whole = (_UNKNOWN, _CONTROL, _USER_DEFINED)
        return [
            added_token(token_id, token, special=kind != _USER_DEFINED)
            for token_id, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True))
            if kind in matched_whole and token
        ]

    def named(self, key: str) -> str:
        """The token whose id is `key`, or an empty string."""
        ids = self.fields.token_ids(key, len(self.tokens))
        return self.tokens[ids[0]] if ids else ""


def _byte_level(fields: Fields, metadata: Mapping[str, Any], vocabulary: _Vocabulary) -> Part:
    splitter = _SPLITTERS[fields.one_of("pre", _SPLITTERS)]
    merges = [_pair(merge, vocabulary.ids) for merge in _list_of(metadata, "merges", str)]
    letters = byte_level(use_regex=True)
    splits = [*_splits(splitter), byte_level(use_regex=not splitter.pattern)]
    return tokenizer(
        vocabulary.added_tokens(),
        normalizer={"type": "NFC"} if splitter.normalize else None,
        pre_tokenizer={"type": "Sequence", "pretokenizers": splits},
        post_processor=_post_processor(fields, vocabulary, splitter.adds_bos) or letters,
        decoder=letters,
        model=bpe(vocabulary.ids, merges, ignore_merges=splitter.whole_tokens_first),
    )


def _splits(splitter: _Splitter) -> Iterator[Part]:
    if splitter.single_digits:
        yield {"type": "Digits", "individual_digits": True}
    if splitter.pattern:
        yield {"type": "Split", "pattern": {"Regex": splitter.pattern}, "behavior": "Isolated", "invert": False}


def _pair(merge: str, ids: Mapping[str, int]) -> tuple[str, str]:
    # The first character may itself be a space in odd vocabularies, so the separator is looked for after it.
    at = merge.find(" ", 1)
    left, right = merge[:at], merge[at + 1 :]
    if at < 0 or left not in ids or right not in ids or left + right not in ids:
        raise MalformedModel(f"GGUF: the merge {merge[:40]!r} does not join two tokens into a third")
    return left, right


def _sentencepiece(fields: Fields, metadata: Mapping[str, Any], vocabulary: _Vocabulary) -> Part:
    scores = _list_of(metadata, "scores", float, len(vocabulary.tokens))
    has_prefix = fields.flag("add_space_prefix", True)
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    prefix = [{"type": "Prepend", "prepend": _SPACE}] if has_prefix else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if has_prefix else []
    back = [{"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}, {"type": "ByteFallback"}]
    unknown = vocabulary.named("unknown_token_id")
    merges = _merges_from_scores(vocabulary, scores)
    return tokenizer(
        vocabulary.added_tokens(),
        normalizer={"type": "Sequence", "normalizers": [*prefix, spaces]},
        pre_tokenizer=None,
        post_processor=_post_processor(fields, vocabulary, adds_bos=True),
        decoder={"type": "Sequence", "decoders": [*back, {"type": "Fuse"}, *strip]},
        model=bpe(vocabulary.ids, merges, unk_token=unknown or None, fuse_unk=bool(unknown), byte_fallback=True),
    )


_MODELS = {"gpt2": _byte_level, "llama": _sentencepiece}


def _merges_from_scores(vocabulary: _Vocabulary, scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every way to make a piece out of two others, best piece first; only ordinary pieces are ever made."""
    ids = vocabulary.ids
    if sum(len(token) ** 2 for token in ids) > _MAX_SPLIT_WORK:
        raise MalformedModel("GGUF: the vocabulary's pieces are too long to be a vocabulary")
    ranked: list[tuple[float, int, int, tuple[str, str]]] = []
    for piece_id, (piece, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds, strict=True)):
        if kind not in (_NORMAL, _UNUSED):
            continue
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                ranked.append((-scores[piece_id], piece_id, cut, (left, right)))
    ranked.sort()
    return [pair for *_, pair in ranked]


def _post_processor(fields: Fields, vocabulary: _Vocabulary, adds_bos: bool) -> Part | None:
    """Puts BOS before and EOS behind a text where the file says so; None where it says neither."""
    bos = vocabulary.named("bos_token_id") if fields.flag("add_bos_token", adds_bos) else ""
    eos = vocabulary.named("eos_token_id") if fields.flag("add_eos_token", False) else ""
    if not bos and not eos:
        return None

    def around(sequence: str, type_id: int) -> list[Part]:
        before = [{"SpecialToken": {"id": bos, "type_id": type_id}}] if bos else []
        behind = [{"SpecialToken": {"id": eos, "type_id": type_id}}] if eos else []
        return [*before, {"Sequence": {"id": sequence, "type_id": type_id}}, *behind]

    return {
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": around("A", 0) + around("B", 1),
        "special_tokens": {
            token: {"id": token, "ids": [vocabulary.ids[token]], "tokens": [token]} for token in (bos, eos) if token
        },
    }


def _list_of(metadata: Mapping[str, Any], name: str, kind: type, length: int | None = None) -> list[Any]:
    values = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(values, list) or not set(map(type, values)) <= {kind}:
        raise MalformedModel(f"GGUF: tokenizer.ggml.{name} is missing or is not a list of {kind.__name__}")
    if length is not None and len(values) != length:
        raise MalformedModel(f"GGUF: tokenizer.ggml.{name} has {len(values)} items for {length} tokens")
    return values
