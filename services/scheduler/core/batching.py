"""Batching: which of those that wait may be given a slot now."""

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence, State
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings


class Batching(Protocol):
    """What the planner asks before it admits. Whether the one in turn fits is not its business."""

    def begin_step(self) -> None:
        """A step is about to be planned."""

    @property
    def is_open(self) -> bool:
        """Whether there is a slot to give out."""

    @property
    def head(self) -> Sequence | None:
        """The one that is next; None: nobody may be."""

    def first(self, without: set[str]) -> Sequence | None:
        """The first that may be admitted and is of none of the tenants `without`."""

    @property
    def num_held(self) -> int:
        """Slots in use or kept empty: what their useful part is measured against."""

    def num_ends_before(self, sequence: Sequence) -> int:
        """How many of the running have to end before a waiting sequence is given a slot; more than run: unknown."""

    def check_integrity(self) -> None:
        """Raises AssertionError if somebody runs who may not."""


def batching_of(settings: CoreSettings, session: Session, queue: WaitingQueue) -> Batching:
    """What `settings.batching` names, for one executor session."""
    if settings.batching == "static":
        return StaticBatching(session.running, session.kv.pool.num_blocks, queue)
    return ContinuousBatching(session.running, queue)


class ContinuousBatching:
    """Whoever is next takes a slot as soon as one is empty."""

    def __init__(self, running: Running, queue: WaitingQueue) -> None:
        self._running = running
        self._queue = queue

    def begin_step(self) -> None:
        pass

    @property
    def is_open(self) -> bool:
        return not self._running.is_full

    @property
    def head(self) -> Sequence | None:
        return self._queue.head

    def first(self, without: set[str]) -> Sequence | None:
        return self._queue.first(without)

    @property
    def num_held(self) -> int:
        return len(self._running)

    def num_ends_before(self, sequence: Sequence) -> int:
        return self._queue.position(sequence) + 1 - (self._running.num_slots - len(self._running))

    def check_integrity(self) -> None:
        pass


class StaticBatching:
    """Request-level batches, as a baseline: nobody joins one before all its members have ended.

    A batch is the first that wait, as many as there are slots and as the pool holds at their limits, so no member ever
    gives way to another. The slots of members that have ended stay empty until the last one has; all are released
    together. Nothing else differs from continuous batching: there is no padding, prompts are computed in chunks, and
    tokens are sent as they come. A lost executor takes its batch with it, and those that are left of it are the first
    of the next.
    """

    def __init__(self, running: Running, num_blocks: int, queue: WaitingQueue) -> None:
        self._running = running
        self._num_blocks = num_blocks
        self._queue = queue
        self._members: list[Sequence] = []

    def begin_step(self) -> None:
        if self._is_over:
            self._members = list(self._choose())

    @property
    def is_open(self) -> bool:
        return self._is_over or self.head is not None

    @property
    def head(self) -> Sequence | None:
        return self.first(set())

    def first(self, without: set[str]) -> Sequence | None:
        return next((member for member in self._waiting() if member.submit.tenant not in without), None)

    @property
    def num_held(self) -> int:
        return 0 if self._is_over else len(self._members)

    def num_ends_before(self, sequence: Sequence) -> int:
        if any(member is sequence for member in self._waiting()):
            return 0
        is_in_next = self.head is None and self._queue.position(sequence) < self._running.num_slots
        return len(self._running) + (not is_in_next)

    def check_integrity(self) -> None:
        assert len(self._members) <= self._running.num_slots, "a batch larger than the slots"
        members = {id(member) for member in self._members}
        assert all(id(sequence) in members for sequence in self._running), "one runs that is not of the batch"

    @property
    def _is_over(self) -> bool:
        return all(member.state is State.ENDED for member in self._members)

    def _waiting(self) -> Iterator[Sequence]:
        """Members that a step has had no budget for yet, or that have lost their slot."""
        return (member for member in self._members if member.is_waiting)

    def _choose(self) -> Iterator[Sequence]:
        """The members of the next batch. Nobody runs, so all slots and blocks and the whole of each quota are free."""
        num_slots, num_blocks = self._running.num_slots, self._num_blocks
        charged: Counter[str] = Counter()
        for sequence in self._queue:
            needed = self._running.final_blocks(sequence)
            tenant, quota = sequence.submit.tenant, sequence.submit.tenant_max_blocks
            if quota and charged[tenant] + needed > quota:
                continue  # the others need not wait for it
            if not num_slots or needed > num_blocks:
                return
            num_slots, num_blocks = num_slots - 1, num_blocks - needed
            charged[tenant] += needed
            yield sequence
