"""Alarms: moments at which a sequence must be looked at again."""

from heapq import heapify, heappop, heappush

from services.scheduler.core.sequence import Sequence, State

_SLACK = 64


class Alarms:
    """A heap of (moment, sequence). Alarms of ended sequences are dropped in passing, so memory follows the living."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Sequence]] = []
        self._num_kept = 0

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, at_us: int, sequence: Sequence) -> None:
        if len(self._heap) > 2 * self._num_kept + _SLACK:
            self._heap = [alarm for alarm in self._heap if _is_kept(alarm)]
            heapify(self._heap)
            self._num_kept = len(self._heap)
        heappush(self._heap, (at_us, sequence.serial, sequence))

    def next_us(self) -> int | None:
        """The next moment at which something is to be done."""
        while self._heap and not _is_kept(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, at_us: int) -> list[Sequence]:
        """Takes the alarms of `at_us` and earlier, oldest first."""
        sequences = []
        while self._heap and self._heap[0][0] <= at_us:
            sequences.append(heappop(self._heap)[2])
        return sequences


def _is_kept(alarm: tuple[int, int, Sequence]) -> bool:
    """Whether its sequence lives and still has this moment."""
    at_us, _, sequence = alarm
    return sequence.state is not State.ENDED and at_us in _moments(sequence)


def _moments(sequence: Sequence) -> tuple[int, int, int]:
    return sequence.deadline_us, sequence.grace_ends_us, sequence.hopeless_us
