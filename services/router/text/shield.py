"""Keeps a user's text from spelling control tokens while it passes through a chat template.

Each control token's name inside user text is replaced by one private-use character that occurs in no text of the
prompt; whatever the template then does (trim, slice, upper, JSON), the character survives it or vanishes whole. After
rendering, the text is split at these characters, and what they stand for is encoded with control tokens off. All other
user text stays as it was, so that templates may look into it and words merge with their neighbours as ever.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from services.router.text.errors import InvalidPrompt

_PRIVATE_PLANES = (range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
_PRIVATE = re.compile("[\U000f0000-\U0010fffd]")


@dataclass(frozen=True, slots=True)
class Recognised:
    """Text in which the names of control tokens are control tokens."""

    text: str


@dataclass(frozen=True, slots=True)
class Plain:
    """Text in which they are not."""

    text: str


@dataclass(frozen=True, slots=True)
class Ids:
    """Tokens that the client gave as such."""

    token_ids: Sequence[int]


Piece = Recognised | Plain | Ids


class ControlNames:
    """Finds the names of a model's control tokens in text: leftmost first, the longest where several begin."""

    def __init__(self, names: Collection[str]) -> None:
        longest_first = sorted(names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def shield(self, texts: Iterable[str]) -> "Shield":
        """A shield for a prompt made of `texts`, the template's own among them."""
        return Shield(self._pattern, texts)


class Shield:
    """The stand-ins of one prompt."""

    def __init__(self, pattern: re.Pattern[str] | None, texts: Iterable[str]) -> None:
        self._pattern = pattern
        taken = {character for text in texts for character in _PRIVATE.findall(text)}
        self._free = (chr(code) for plane in _PRIVATE_PLANES for code in plane if chr(code) not in taken)
        self._of_name: dict[str, str] = {}
        self._pieces: dict[str, Piece] = {}

    def cover(self, text: str) -> str:
        """`text` with stand-ins for the names of control tokens."""
        return self._pattern.sub(self._stand_in, text) if self._pattern else text

    def _stand_in(self, found: re.Match[str]) -> str:
        name = found[0]
        if name not in self._of_name:
            self._of_name[name] = self._new(Plain(name))
        return self._of_name[name]

    def cover_ids(self, token_ids: Sequence[int]) -> str:
        """One character that stands for these tokens."""
        return self._new(Ids(token_ids))

    def blank(self) -> str:
        """One character that stands for nothing: text that no prompt contains."""
        return self._new(Plain(""))

    def _new(self, piece: Piece) -> str:
        character = next(self._free, "")
        if not character:
            raise InvalidPrompt("chat.messages", "the text uses all of Unicode's private characters; leave some out")
        self._pieces[character] = piece
        return character

    def pieces(self, rendered: str) -> Iterator[Piece]:
        """What a rendered prompt consists of, in order."""
        start = 0
        for match in _PRIVATE.finditer(rendered) if self._pieces else ():
            piece = self._pieces.get(match[0])
            if piece is None:  # a private character of the user's own
                continue
            if match.start() > start:
                yield Recognised(rendered[start : match.start()])
            yield piece
            start = match.end()
        if start < len(rendered):
            yield Recognised(rendered[start:])
