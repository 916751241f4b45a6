"""Finds stop strings in text that arrives in pieces, holding back no more than the longest of them.

The match that counts is the one that *completes* first; of several that complete with the same character, the one that
begins first, which is the longest. So "ab" wins over "abc", and "xab" over "ab". It depends on the text alone, not on how
the text was cut into pieces (Aho & Corasick 1975: one automaton for all strings, one transition a character).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Node:
    """The text so far ends in a beginning of a stop string: this one, and no longer one."""

    depth: int
    after: dict[str, "_Node"] = field(default_factory=dict)
    shorter: "_Node | None" = None  # the next longest such beginning
    completes: int = 0  # length of the longest stop string that ends here
    held: int = 0  # length of the longest beginning that may still become a stop string


class StopStrings:
    """The automaton of one request's stop strings; immutable."""

    def __init__(self, strings: Sequence[str]) -> None:
        if not all(strings):
            raise ValueError("a stop string is empty")
        self.root = _Node(depth=0)
        for string in strings:
            self._add(string)
        self._link()

    def __bool__(self) -> bool:
        return bool(self.root.after)

    def _add(self, string: str) -> None:
        node = self.root
        for character in string:
            node = node.after.setdefault(character, _Node(depth=node.depth + 1))
        node.completes = len(string)

    def _link(self) -> None:
        """Links each node to the next shorter one, shortest first, so that what it takes from there is complete."""
        waiting = deque([self.root])
        while waiting:
            node = waiting.popleft()
            for character, child in node.after.items():
                child.shorter = self.root if node is self.root else step(node.shorter, character, self.root)
                child.completes = child.completes or child.shorter.completes
                child.held = child.depth if child.after else child.shorter.held
                waiting.append(child)


def step(node: _Node | None, character: str, root: _Node) -> _Node:
    """The longest beginning that the text ends in after one more character."""
    while node is not None:
        if character in node.after:
            return node.after[character]
        node = node.shorter
    return root


@dataclass(frozen=True, slots=True)
class StopMatch:
    """A stop string that was found."""

    string: str
    text: str  # what there is still to give out before it, the stop string with it where that was asked for


class StopScanner:
    """The state of one answer: what is held back, and where in the automaton the text stands."""

    def __init__(self, strings: StopStrings, *, include_stop_string: bool = False) -> None:
        self._root = strings.root
        self._node = strings.root
        self._include = include_stop_string
        self._held = ""

    def push(self, text: str, *, heed: bool = True) -> str | StopMatch:
        """The text that no stop string can begin in any more, or the match. Unless `heed`, matches are text."""
        node, root = self._node, self._root
        for place, character in enumerate(text):
            node = step(node, character, root)
            if node.completes and heed:
                return self._matched(self._held + text[: place + 1], node.completes)
        self._node = node
        whole = self._held + text
        given = len(whole) - node.held
        self._held = whole[given:]
        return whole[:given]

    def _matched(self, text: str, length: int) -> StopMatch:
        start = len(text) - length
        self._held = ""
        self._node = self._root
        return StopMatch(string=text[start:], text=text if self._include else text[:start])

    def finish(self) -> str:
        """What is held back when the text ends."""
        held, self._held = self._held, ""
        return held
