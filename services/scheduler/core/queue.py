"""The waiting queue: sequences in the order in which they are to be admitted, bounded in requests and in tokens."""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace

from services.scheduler.core.line import Line
from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.policies.policy import Policy
from services.scheduler.core.sequence import Sequence

_SLACK = 64


class WaitingQueue:
    """Newcomers join if the bounds allow; what has run already, or ran elsewhere, passes the bounds.

    What has run already stands at the front. Behind it each tenant has a line, and a heap holds the turn of the first of
    each; the policy says both orders. Turns that have moved are found when they come to the top, so nothing here grows
    with the length of the queue but the logarithm.
    """

    def __init__(self, *, max_requests: int, max_tokens: int, policy: Policy | None = None) -> None:
        self.max_requests = max_requests
        self.max_tokens = max_tokens
        self.policy: Policy = policy or FirstCome()
        self.num_tokens = 0
        self._num_in_lines = 0
        self._front: OrderedDict[int, Sequence] = OrderedDict()
        self._lines: dict[str, Line] = {}
        self._turns: list[tuple[int, int, str]] = []
        self._turn_of: dict[str, tuple[int, int]] = {}
        """The entry of a tenant in the heap; others are dropped when they come to the top."""

    def __len__(self) -> int:
        return len(self._front) + self._num_in_lines

    def __iter__(self) -> Iterator[Sequence]:
        """In order, as far as it can be foreseen. This sorts; a step never does it."""
        yield from self._front.values()
        turns: list[tuple[int, int, Sequence, int, Iterator[tuple[int, Sequence]]]] = []

        def push_next(line: Iterator[tuple[int, Sequence]], price: int) -> None:
            for rank, sequence in line:
                turn = self.policy.turn(sequence, rank) + price
                heappush(turns, (turn, sequence.serial, sequence, price, line))
                return

        for line in self._lines.values():
            push_next(iter(line), 0)
        while turns:
            _, _, sequence, price, rest = heappop(turns)
            yield sequence
            push_next(rest, price + self.policy.price(sequence))

    @property
    def head(self) -> Sequence | None:
        """The one that is next; None: nobody waits."""
        return next(iter(self._front.values())) if self._front else self._first_in_turn()

    def first(self, without: set[str]) -> Sequence | None:
        """The first that is of none of the tenants `without`."""
        for ran in self._front.values():
            if ran.submit.tenant not in without:
                return ran
        passed = []
        while (sequence := self._first_in_turn()) and sequence.submit.tenant in without:
            passed.append(heappop(self._turns))
        for entry in passed:
            heappush(self._turns, entry)
        return sequence

    def can_join(self, num_tokens: int) -> bool:
        """Whether a newcomer of `num_tokens` is within the bounds. An empty queue takes any one."""
        if not len(self):
            return True
        return len(self) < self.max_requests and self.num_tokens + num_tokens <= self.max_tokens

    def join(self, sequence: Sequence) -> None:
        """In the line of its tenant; undone by `leave`."""
        tenant = sequence.submit.tenant
        line = self._lines.get(tenant)
        if line is None:
            self.policy.join(sequence, self._first_in_turn())
            line = self._lines[tenant] = Line()
        line.join(sequence, self.policy.rank(sequence))
        self._num_in_lines += 1
        self.num_tokens += sequence.num_stored
        if line.first[1] is sequence:
            self._enter_turn(tenant)

    def rejoin(self, sequence: Sequence) -> None:
        """At the front: it has been admitted before; undone by `leave`."""
        self._front[sequence.serial] = sequence
        self._front.move_to_end(sequence.serial, last=False)
        self.policy.release(sequence)
        self.num_tokens += sequence.num_stored

    def leave(self, sequence: Sequence) -> None:
        self.num_tokens -= sequence.num_stored
        if self._front.pop(sequence.serial, None):
            return
        tenant = sequence.submit.tenant
        line = self._lines[tenant]
        line.leave(sequence)
        self._num_in_lines -= 1
        if not line:
            del self._lines[tenant], self._turn_of[tenant]

    def position(self, sequence: Sequence) -> int:
        """How many are before it."""
        return next(place for place, each in enumerate(self) if each is sequence)

    def check_integrity(self) -> None:
        waiting = list(self)
        assert len(waiting) == len(self), "a sequence that waits is miscounted"
        assert self.num_tokens == sum(sequence.num_stored for sequence in waiting), "waiting tokens are miscounted"
        assert all(sequence.is_waiting for sequence in waiting), "a sequence waits that does not know it"
        assert self.head is (waiting[0] if waiting else None), "another is next than the order says"

    def _first_in_turn(self) -> Sequence | None:
        """Of the lines. An entry that is older than its tenant's turn is put right when it comes to the top."""
        while self._turns:
            turn, serial, tenant = self._turns[0]
            if self._turn_of.get(tenant) != (turn, serial):
                heappop(self._turns)
                continue
            rank, sequence = self._lines[tenant].first
            now = self.policy.turn(sequence, rank), sequence.serial
            if now == (turn, serial):
                return sequence
            self._turn_of[tenant] = now
            heapreplace(self._turns, (*now, tenant))
        return None

    def _enter_turn(self, tenant: str) -> None:
        rank, sequence = self._lines[tenant].first
        self._turn_of[tenant] = turn = self.policy.turn(sequence, rank), sequence.serial
        if len(self._turns) > 2 * len(self._turn_of) + _SLACK:
            self._turns = [(*turn, tenant) for tenant, turn in self._turn_of.items()]
            heapify(self._turns)
        else:
            heappush(self._turns, (*turn, tenant))
