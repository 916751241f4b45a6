"""A line: the sequences of one tenant that wait, in the order of their ranks."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from services.scheduler.core.sequence import Sequence

_SLACK = 64

Rank = tuple[bool, int]
"""(whether it is spare work, what the policy says)."""


class Line:
    """A heap. Those that leave from the middle are dropped in passing, so memory follows those that wait."""

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int]] = []
        self._waiting: dict[int, Sequence] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[tuple[Rank, Sequence]]:
        """(rank, sequence), in order."""
        for rank, serial in sorted(self._heap):
            if serial in self._waiting:
                yield rank, self._waiting[serial]

    @property
    def first(self) -> tuple[Rank, Sequence]:
        """(rank, sequence) of the one that is next; somebody waits."""
        while self._heap[0][1] not in self._waiting:
            heappop(self._heap)
        rank, serial = self._heap[0]
        return rank, self._waiting[serial]

    def join(self, sequence: Sequence, rank: Rank) -> None:
        """Undone by `leave`."""
        self._waiting[sequence.serial] = sequence
        heappush(self._heap, (rank, sequence.serial))

    def leave(self, sequence: Sequence) -> None:
        del self._waiting[sequence.serial]
        if len(self._heap) > 2 * len(self._waiting) + _SLACK:
            self._heap = [entry for entry in self._heap if entry[1] in self._waiting]
            heapify(self._heap)
