"""The waiting queue: sequences in the order in which they are to be admitted, bounded in requests and in tokens."""

from collections import OrderedDict
from collections.abc import Iterator

from services.scheduler.core.sequence import Sequence


class WaitingQueue:
    """Newcomers join at the back if the bounds allow; what has run already, or ran elsewhere, passes the bounds."""

    def __init__(self, *, max_requests: int, max_tokens: int) -> None:
        self.max_requests = max_requests
        self.max_tokens = max_tokens
        self.num_tokens = 0
        self._sequences: OrderedDict[int, Sequence] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences.values())

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence.serial in self._sequences

    @property
    def head(self) -> Sequence | None:
        """The one that is next; None: nobody waits."""
        return next(iter(self), None)

    def first(self, without: set[str]) -> Sequence | None:
        """The first that is of none of the tenants `without`."""
        return next((sequence for sequence in self if sequence.submit.tenant not in without), None)

    def can_join(self, num_tokens: int) -> bool:
        """Whether a newcomer of `num_tokens` is within the bounds. An empty queue takes any one."""
        if not self._sequences:
            return True
        return len(self) < self.max_requests and self.num_tokens + num_tokens <= self.max_tokens

    def join(self, sequence: Sequence) -> None:
        """At the back; undone by `leave`."""
        self._sequences[sequence.serial] = sequence
        self.num_tokens += sequence.num_stored

    def rejoin(self, sequence: Sequence) -> None:
        """At the front: it has been admitted before; undone by `leave`."""
        self.join(sequence)
        self._sequences.move_to_end(sequence.serial, last=False)

    def leave(self, sequence: Sequence) -> None:
        del self._sequences[sequence.serial]
        self.num_tokens -= sequence.num_stored

    def position(self, sequence: Sequence) -> int:
        """How many are before it."""
        return next(place for place, serial in enumerate(self._sequences) if serial == sequence.serial)

    def check_integrity(self) -> None:
        assert self.num_tokens == sum(sequence.num_stored for sequence in self), "waiting tokens are miscounted"
        assert all(sequence.is_waiting for sequence in self), "a sequence waits that does not know it"
