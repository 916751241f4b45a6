"""Turns an answer's tokens into text while they arrive.

The text of an answer is the tokenizer's decode of all its tokens together. A detokenizer gives out, after each token, as
much of it as no later token can change, and at the end the rest; what it has given out after k tokens depends on these
tokens alone. Three kinds, by what the tokenizer's decoder does:

  bytes     byte-level BPE: tokens are bytes, text is their UTF-8, ill-formed parts replaced by U+FFFD. At most an
            unfinished character is held back.
  fallback  SentencePiece-like BPE: tokens are text, or single bytes. A run of byte tokens becomes text when it ends,
            because it is replaced as a whole when any part of it is ill-formed.
  window    any other decoder: the last tokens are decoded twice, with and without the new ones, and the difference
            is the new text.
"""

import codecs
import re
from dataclasses import dataclass
from typing import Any, Protocol

from services.router.text.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_MAX_HELD_TOKENS = 16


class Detokenizer(Protocol):
    """The state of one answer."""

    def push(self, token_id: int) -> str:
        """The text that this token settles."""

    def finish(self) -> str:
        """The rest of the text; nothing is pushed after it."""


class Detokenizers:
    """Makes a model's detokenizers. What they share: each token's share of the text, worked out when first seen."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        stages = _stages(tokenizer.decoder)
        self._of_bytes = _BytePieces(tokenizer) if [stage["type"] for stage in stages] == ["ByteLevel"] else None
        self._fallback = _FallbackDecoder.matching(stages)
        self._texts = _TextPieces(tokenizer, self._fallback) if self._fallback else None

    def new(self, *, skip_special_tokens: bool = True) -> Detokenizer:
        """A detokenizer for one answer."""
        skipped = self._tokenizer.control_id_set if skip_special_tokens else frozenset()
        if self._of_bytes is not None:
            return _ByteDetokenizer(self._of_bytes, skipped)
        if self._fallback is not None and self._texts is not None:
            return _FallbackDetokenizer(self._texts, skipped, self._fallback)
        return _WindowDetokenizer(self._tokenizer, skip_special_tokens)

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = True) -> str:
        """The text of all of `token_ids` together."""
        detokenizer = self.new(skip_special_tokens=skip_special_tokens)
        return "".join(map(detokenizer.push, token_ids)) + detokenizer.finish()


def _stages(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    stages: list[dict[str, Any]] = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    return stages


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's visible spelling of the 256 bytes: printable ones as themselves, the others from U+0100 upwards."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + place): byte for place, byte in enumerate(hidden)}


_BYTE_OF = _byte_alphabet()


class _BytePieces(dict[int, bytes]):
    """The bytes of each token. Misses are filled in; two threads may both do so, with the same value."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token_id: int) -> bytes:
        spelling = self._tokenizer.token(token_id) or ""
        try:
            piece = bytes([_BYTE_OF[character] for character in spelling])
        except KeyError:  # an added token with a character beyond the alphabet is text, not bytes
            piece = spelling.encode()
        self[token_id] = piece
        return piece


class _ByteDetokenizer:
    def __init__(self, pieces: _BytePieces, skipped: frozenset[int]) -> None:
        self._pieces = pieces
        self._skipped = skipped
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        return "" if token_id in self._skipped else self._utf8.decode(self._pieces[token_id])

    def finish(self) -> str:
        return self._utf8.decode(b"", final=True)


@dataclass(frozen=True, slots=True)
class _FallbackDecoder:
    """What a decoder of replacements, byte fallback, fusion and stripping does, in this order."""

    replacements: tuple[tuple[str, str], ...]
    stripped: str  # what is taken from the start of the text
    most_stripped: int  # at most so often

    @classmethod
    def matching(cls, stages: list[dict[str, Any]]) -> "_FallbackDecoder | None":
        """None when the decoder has another form."""
        kinds = [stage["type"] for stage in stages]
        replacing = [stage for stage in stages if stage["type"] == "Replace"]
        tail = kinds[len(replacing) :]
        if kinds[: len(replacing)] != ["Replace"] * len(replacing) or tail[:2] != ["ByteFallback", "Fuse"]:
            return None
        if not all("String" in stage["pattern"] for stage in replacing):
            return None
        replacements = tuple((stage["pattern"]["String"], stage["content"]) for stage in replacing)
        if tail[2:] == []:
            return cls(replacements, "", 0)
        if tail[2:] == ["Strip"] and stages[-1]["stop"] == 0:
            return cls(replacements, stages[-1]["content"], stages[-1]["start"])
        return None


class _TextPieces(dict[int, str | int | None]):
    """Each token's text, or its byte; None for an id that is no token and has no share in the text at all."""

    def __init__(self, tokenizer: Tokenizer, decoder: _FallbackDecoder) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._decoder = decoder

    def __missing__(self, token_id: int) -> str | int | None:
        piece = self[token_id] = self._piece(self._tokenizer.token(token_id))
        return piece

    def _piece(self, text: str | None) -> str | int | None:
        if text is None:
            return None
        for pattern, content in self._decoder.replacements:
            text = text.replace(pattern, content)
        byte = _BYTE_TOKEN.fullmatch(text)
        return int(byte[1], 16) if byte else text


class _FallbackDetokenizer:
    def __init__(self, pieces: _TextPieces, skipped: frozenset[int], decoder: _FallbackDecoder) -> None:
        self._pieces = pieces
        self._skipped = skipped
        self._run = bytearray()
        self._stripped = decoder.stripped
        self._left_to_strip = decoder.most_stripped

    def push(self, token_id: int) -> str:
        if token_id in self._skipped:
            return ""
        piece = self._pieces[token_id]
        if piece is None:
            return ""
        if isinstance(piece, int):
            self._run.append(piece)
            return ""
        return self._without_lead(self._end_run() + piece)

    def finish(self) -> str:
        return self._without_lead(self._end_run())

    def _end_run(self) -> str:
        if not self._run:
            return ""
        try:
            text = self._run.decode()
        except UnicodeDecodeError:
            text = REPLACEMENT * len(self._run)
        self._run.clear()
        return text

    def _without_lead(self, text: str) -> str:
        """`text` without what is stripped from the start of an answer."""
        while self._left_to_strip and text:
            if not text.startswith(self._stripped):
                self._left_to_strip = 0
                break
            text = text[len(self._stripped) :]
            self._left_to_strip -= 1
        return text


class _WindowDetokenizer:
    """Decodes a window of tokens; exact where a token's text depends on few tokens before it."""

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        self._window: list[int] = []  # the tokens given out last, then those held back
        self._given = 0  # how many of the window's tokens are given out

    def push(self, token_id: int) -> str:
        self._window.append(token_id)
        if len(self._window) - self._given >= _MAX_HELD_TOKENS:
            return self._settle()
        text = self._decode(self._window)
        return "" if text.endswith(REPLACEMENT) else self._settle()

    def finish(self) -> str:
        return self._settle()

    def _settle(self) -> str:
        before = self._decode(self._window[: self._given])
        text = self._decode(self._window)[len(before) :]
        if text or len(self._window) - self._given >= _MAX_HELD_TOKENS:
            self._window = self._window[self._given :]
            self._given = len(self._window)
        return text

    def _decode(self, token_ids: list[int]) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=self._skip)
