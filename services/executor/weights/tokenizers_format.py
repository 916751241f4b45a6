"""The JSON that the `tokenizers` library reads: the parts that every tokenizer made here is put together from."""

from collections.abc import Mapping, Sequence
from typing import Any

Part = dict[str, Any]


def tokenizer(
    added_tokens: Sequence[Part],
    *,
    normalizer: Part | None,
    pre_tokenizer: Part | None,
    post_processor: Part | None,
    decoder: Part,
    model: Part,
) -> Part:
    """A whole tokenizer, which neither cuts nor pads."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor,
        "decoder": decoder,
        "model": model,
    }


def added_token(token_id: int, content: str, *, special: bool) -> Part:
    """A token that is matched as a whole, in text as it stands."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": content, **plain, "special": special}


def byte_level(*, use_regex: bool) -> Part:
    """Bytes as letters; with `use_regex` the text is first cut as GPT-2 cuts it."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def bpe(vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], **options: Any) -> Part:
    """Byte-pair encoding: ids by token, pairs in the order in which they are merged, and what is not as usual."""
    usual = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    }
    return usual | options | {"vocab": vocab, "merges": merges}
