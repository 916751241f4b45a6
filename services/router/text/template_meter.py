"""What one rendering of a chat template may use, and the meter that everything it makes is held against.

Every value that a template makes is measured when it is made, with all that is nested in it. What is done with a value
later is so bounded by its size, and what a rendering holds in memory by the sum of all that it has made.
"""

import time
from collections.abc import Collection, Iterator, KeysView, Mapping, ValuesView
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from services.router.text.errors import TemplateTooCostly

_NODE_CHARS = 16  # what an item of a list counts beside its text, as a bound on what is nested
_ITEM_CHARS = 64  # what an item of a new list counts as memory
_MAX_NESTING = 64
_MAX_NUMBER_BITS = 4096


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one rendering may use."""

    operations: int = 1_000_000  # loop turns, calls, filters, comparisons and outputs
    seconds: float = 5.0
    output_chars: int = 32 * 2**20
    value_chars: int = 8 * 2**20  # of one value; an item counts as 16
    built_chars: int = 128 * 2**20  # of all values together, also of those that are gone


@dataclass(frozen=True, slots=True)
class Size:
    """How large a value is, with all that is nested in it."""

    chars: int = 0
    nodes: int = 0
    nesting: int = 0

    @property
    def weight(self) -> int:
        return self.chars + self.nodes * _NODE_CHARS


class Meter:
    """What is left of an allowance during one rendering."""

    def __init__(self, allowance: Allowance) -> None:
        self._operations_left = allowance.operations
        self._deadline = time.monotonic() + allowance.seconds
        self.output_chars = allowance.output_chars
        self._value_chars = min(allowance.value_chars, allowance.output_chars)
        self._built_left = allowance.built_chars
        # A list that holds others of which the sizes are known need not be walked to its leaves. Each value is kept beside
        # its size, so that no other can come to have its id; none of them can change.
        self._known: dict[int, tuple[Any, Size]] = {}

    def spend(self) -> None:
        """Pays for an operation."""
        self._operations_left -= 1
        if self._operations_left < 0:
            raise TemplateTooCostly("the chat template takes too many steps")
        if time.monotonic() > self._deadline:
            raise TemplateTooCostly("the chat template takes too long")

    def check(self, chars: int) -> None:
        """Refuses to make, or to work on, a value of so many characters."""
        if chars > self._value_chars:
            raise TemplateTooCostly("the chat template builds too long a text")

    def size(self, value: Any) -> Size:
        """The size of `value`, refused when it is more than a value may have."""
        if isinstance(value, str):
            self.check(len(value))
            return Size(chars=len(value))
        if not is_container(value):
            return Size()
        if known := self._known.get(id(value)):
            return known[1]
        chars = nodes = nesting = 0
        parts: list[Collection[Any]] = [value.keys(), value.values()] if isinstance(value, Mapping) else [value]
        for part in parts:
            nodes += len(part)
            for item in part:
                if isinstance(item, str):
                    chars += len(item)
                elif is_container(item):
                    inner = self.size(item)
                    chars, nodes, nesting = chars + inner.chars, nodes + inner.nodes, max(nesting, inner.nesting)
                    self.check(chars + nodes * _NODE_CHARS)
        size = Size(chars, nodes, nesting + 1)
        self.check(size.weight)
        if size.nesting > _MAX_NESTING:
            raise TemplateTooCostly("the chat template nests too deep")
        self._known[id(value)] = (value, size)
        return size

    def made(self, value: Any, *, with_items: bool = False) -> Any:
        """`value`, which is new: measured and paid for, and with it the texts in it if these are new too.

        One that is lazy pays when it gives its items.
        """
        if isinstance(value, str):
            self.check(len(value))
            self._pay(len(value))
        elif isinstance(value, int):
            if value.bit_length() > _MAX_NUMBER_BITS:
                raise TemplateTooCostly("the chat template builds too large a number")
        elif is_container(value):
            size = self.size(value)
            self._pay(len(value) * _ITEM_CHARS + (size.chars if with_items else 0))
        elif isinstance(value, Iterator):
            return self._paying(value)
        return value

    def _pay(self, chars: int) -> None:
        self._built_left -= chars
        if self._built_left < 0:
            raise TemplateTooCostly("the chat template builds too much text")

    def _paying(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.spend()
            yield self.made(item) if is_container(item) else item


def is_container(value: Any) -> bool:
    """Whether it has items that a walk would find. A range has none: it makes them."""
    return isinstance(value, list | tuple | Mapping | AbstractSet | KeysView | ValuesView)


_current: ContextVar[Meter] = ContextVar("meter")


def current() -> Meter:
    """The meter of this rendering. LookupError outside of one, so that nothing is worked out while a template compiles."""
    return _current.get()


def enter(meter: Meter) -> Any:
    """Makes it the current one; undone by `leave` with what this returns."""
    return _current.set(meter)


def leave(token: Any) -> None:
    _current.reset(token)
