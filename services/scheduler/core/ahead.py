"""Ahead: how much of what waits would go before a newcomer."""

from bisect import bisect_left, insort
from itertools import islice
from typing import Protocol

from services.scheduler.core.sequence import Sequence


class Ahead(Protocol):
    """Of those that wait in lines, spare work left out: it is before nobody."""

    def join(self, sequence: Sequence, rank: int) -> None:
        """Undone by `leave`."""

    def leave(self, sequence: Sequence) -> None:
        """It waits in a line no more."""

    def of(self, newcomer: Sequence, rank: int) -> tuple[int, int]:
        """(requests, tokens) before one that joins now."""

    def __len__(self) -> int: ...


class InOneOrder:
    """Where ranks alone say who is before whom. Tokens are added up for each newcomer: few are before it, or it is refused."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._order: list[tuple[int, int, int]] = []
        """(rank, serial number, tokens), sorted."""
        self._entries: dict[int, tuple[int, int, int]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def join(self, sequence: Sequence, rank: int) -> None:
        self._entries[sequence.serial] = entry = rank, sequence.serial, sequence.num_stored
        insort(self._order, entry)
        self.num_tokens += sequence.num_stored

    def leave(self, sequence: Sequence) -> None:
        del self._order[bisect_left(self._order, self._entries.pop(sequence.serial))]
        self.num_tokens -= sequence.num_stored

    def of(self, newcomer: Sequence, rank: int) -> tuple[int, int]:
        num_before = bisect_left(self._order, (rank, newcomer.serial, 0))
        return num_before, sum(num_tokens for _, _, num_tokens in islice(self._order, num_before))


class ByTenant:
    """Where tenants take turns: what is before it of its own tenant, and one of each other, of the mean length."""

    def __init__(self) -> None:
        self._of: dict[str, InOneOrder] = {}
        self._len = 0
        self._num_tokens = 0

    def __len__(self) -> int:
        return self._len

    def join(self, sequence: Sequence, rank: int) -> None:
        self._of.setdefault(sequence.submit.tenant, InOneOrder()).join(sequence, rank)
        self._len += 1
        self._num_tokens += sequence.num_stored

    def leave(self, sequence: Sequence) -> None:
        own = self._of[sequence.submit.tenant]
        own.leave(sequence)
        self._len -= 1
        self._num_tokens -= sequence.num_stored
        if not len(own):
            del self._of[sequence.submit.tenant]

    def of(self, newcomer: Sequence, rank: int) -> tuple[int, int]:
        own = self._of.get(newcomer.submit.tenant)
        if own is None:
            own = InOneOrder()
        num_others = self._len - len(own)
        num_turns = len(self._of) - bool(len(own))
        num_before, num_tokens = own.of(newcomer, rank)
        others_tokens = (self._num_tokens - own.num_tokens) * num_turns // max(1, num_others)
        return num_before + num_turns, num_tokens + others_tokens
