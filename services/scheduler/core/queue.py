"""The waiting queue: sequences in the order in which they are to be admitted, bounded in requests and in tokens."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain

from services.scheduler.core.ahead import Ahead, ByTenant, InOneOrder
from services.scheduler.core.line import Line, Rank
from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.policies.policy import Policy
from services.scheduler.core.sequence import Sequence

_SLACK = 64
_NOBODY: frozenset[str] = frozenset()


Turn = tuple[bool, int, int]
"""(whether it is spare work, what the policy says, serial number)."""


class WaitingQueue:
    """Newcomers join if the bounds allow; what has run already, or ran elsewhere, passes the bounds.

    What has run already stands at the front. Behind it each tenant has a line, and a heap holds the turn of the first of
    each; the policy says both orders. Spare work is behind all other, in the same order. Turns that have moved are found
    when they come to the top, so nothing here grows with the length of the queue but the logarithm.
    """

    def __init__(self, *, max_requests: int, max_tokens: int, policy: Policy | None = None) -> None:
        self.max_requests = max_requests
        self.max_tokens = max_tokens
        self.policy: Policy = policy or FirstCome()
        self.num_tokens = 0
        self.num_spare = 0
        self.num_spare_tokens = 0
        self._num_in_lines = 0
        self._ahead: Ahead = InOneOrder() if self.policy.in_one_order else ByTenant()
        self._fronts: tuple[OrderedDict[int, Sequence], OrderedDict[int, Sequence]] = (OrderedDict(), OrderedDict())
        """Of spare work the second."""
        self._held: dict[int, Sequence] = {}
        """Of those at the fronts, the ones that others may pass."""
        self._lines: dict[str, Line] = {}
        self._turns: list[tuple[Turn, str]] = []
        self._turn_of: dict[str, Turn] = {}
        """The entry of a tenant in the heap; others are dropped when they come to the top."""

    def __len__(self) -> int:
        return self._num_in_lines + len(self._fronts[0]) + len(self._fronts[1])

    def __iter__(self) -> Iterator[Sequence]:
        """In order, as far as it can be foreseen. This sorts; a step never does it."""
        in_lines = list(self._merge())
        for is_spare in (False, True):
            yield from self._fronts[is_spare].values()
            yield from (sequence for sequence in in_lines if sequence.is_spare is is_spare)

    @property
    def head(self) -> Sequence | None:
        """The one that is next; None: nobody waits."""
        return self.first(_NOBODY) if self._num_in_lines or self._fronts[0] or self._fronts[1] else None

    def first(self, without: AbstractSet[str]) -> Sequence | None:
        """The first that is of none of the tenants `without`."""
        first = self._first_at(self._fronts[False], without) or self._first_in_lines(without)
        if first and not first.is_spare:
            return first
        return self._first_at(self._fronts[True], without) or first

    def can_join(self, num_tokens: int, *, is_spare: bool) -> bool:
        """Whether a newcomer of `num_tokens` is within the bounds. An empty queue takes any one.

        Spare work fills the queue for spare work alone: to the others it is not there.
        """
        num_waiting, num_waiting_tokens = len(self), self.num_tokens
        if not is_spare:
            num_waiting, num_waiting_tokens = num_waiting - self.num_spare, num_waiting_tokens - self.num_spare_tokens
        if not num_waiting:
            return True
        return num_waiting < self.max_requests and num_waiting_tokens + num_tokens <= self.max_tokens

    def join(self, sequence: Sequence) -> None:
        """In the line of its tenant; undone by `leave`."""
        tenant = sequence.submit.tenant
        line = self._lines.get(tenant)
        if line is None:
            if tenant not in self._at_front():
                self.policy.join(sequence, self._first_in_turn(), chain(self._lines, self._at_front()))
            line = self._lines[tenant] = Line()
        rank = self.policy.rank(sequence)
        line.join(sequence, (sequence.is_spare, rank))
        if not sequence.is_spare:
            self._ahead.join(sequence, rank)
        self._num_in_lines += 1
        self._count(sequence, 1)
        if line.first[1] is sequence:
            self._enter_turn(tenant)

    def rejoin(self, sequence: Sequence) -> None:
        """At the front: it has been admitted before; undone by `leave`."""
        front = self._fronts[sequence.is_spare]
        front[sequence.serial] = sequence
        front.move_to_end(sequence.serial, last=False)
        self._count(sequence, 1)
        self.policy.release(sequence)

    @property
    def num_held(self) -> int:
        return len(self._held)

    @property
    def held(self) -> Iterable[Sequence]:
        """Those that others may pass."""
        return self._held.values()

    def is_held(self, sequence: Sequence) -> bool:
        return sequence.serial in self._held

    def hold(self, sequence: Sequence) -> None:
        """The one that is next, which does not fit, stays before all others, and they may pass it; undone by `unhold`."""
        front = self._fronts[sequence.is_spare]
        if sequence.serial not in front:
            self.leave(sequence)
            front[sequence.serial] = sequence
            self._count(sequence, 1)
        self._held[sequence.serial] = sequence

    def unhold(self) -> None:
        """Nobody may pass those at the fronts any more."""
        self._held.clear()

    def leave(self, sequence: Sequence) -> None:
        self._count(sequence, -1)
        self._held.pop(sequence.serial, None)
        if self._fronts[sequence.is_spare].pop(sequence.serial, None):
            return
        tenant = sequence.submit.tenant
        line = self._lines[tenant]
        line.leave(sequence)
        if not sequence.is_spare:
            self._ahead.leave(sequence)
        self._num_in_lines -= 1
        if not line:
            del self._lines[tenant], self._turn_of[tenant]
        elif self._turn(*line.first) < self._turn_of[tenant]:
            self._enter_turn(tenant)  # an older one, of a later rank, is the first of its tenant now

    def position(self, sequence: Sequence) -> int:
        """How many are before it."""
        return next(place for place, each in enumerate(self) if each is sequence)

    def before(self, newcomer: Sequence) -> tuple[int, int]:
        """(requests, tokens) that would go before one that joins now, and is no spare work."""
        num_before, num_tokens = self._ahead.of(newcomer, self.policy.rank(newcomer))
        front = self._fronts[False].values()
        return num_before + len(front), num_tokens + sum(sequence.num_stored for sequence in front)

    def check_integrity(self) -> None:
        waiting = list(self)
        assert len(waiting) == len(self), "a sequence that waits is miscounted"
        assert self.num_tokens == sum(sequence.num_stored for sequence in waiting), "waiting tokens are miscounted"
        assert self.num_spare == sum(sequence.is_spare for sequence in waiting), "spare work is miscounted"
        num_ahead = len(waiting) - self.num_spare - len(self._fronts[False])
        assert len(self._ahead) == num_ahead, "one that waits is not counted before newcomers"
        assert all(sequence.is_waiting for sequence in waiting), "a sequence waits that does not know it"
        first = next((sequence for sequence in waiting if not self.is_held(sequence)), None)
        assert self.head is first, "another is next than the order says"

    def _count(self, sequence: Sequence, sign: int) -> None:
        self.num_tokens += sign * sequence.num_stored
        self.num_spare += sign * sequence.is_spare
        self.num_spare_tokens += sign * sequence.num_stored * sequence.is_spare

    def _at_front(self) -> Iterator[str]:
        """The tenants of those that stand at the fronts."""
        return (sequence.submit.tenant for front in self._fronts for sequence in front.values())

    def _turn(self, rank: Rank, sequence: Sequence, price: int = 0) -> Turn:
        is_spare, within_line = rank
        return is_spare, self.policy.turn(sequence, within_line) + price, sequence.serial

    def _merge(self) -> Iterator[Sequence]:
        """Those in lines; each admission puts off the turn of its tenant by its price."""
        turns: list[tuple[Turn, Sequence, int, Iterator[tuple[Rank, Sequence]]]] = []

        def push_next(line: Iterator[tuple[Rank, Sequence]], price: int) -> None:
            for rank, sequence in line:
                heappush(turns, (self._turn(rank, sequence, price), sequence, price, line))
                return

        for line in self._lines.values():
            push_next(iter(line), 0)
        while turns:
            _, sequence, price, rest = heappop(turns)
            yield sequence
            push_next(rest, price + self.policy.price(sequence))

    def _first_at(self, front: OrderedDict[int, Sequence], without: AbstractSet[str]) -> Sequence | None:
        for sequence in front.values():
            if sequence.serial not in self._held and sequence.submit.tenant not in without:
                return sequence
        return None

    def _first_in_lines(self, without: AbstractSet[str]) -> Sequence | None:
        if not without:
            return self._first_in_turn()
        passed = []
        while (sequence := self._first_in_turn()) and sequence.submit.tenant in without:
            passed.append(heappop(self._turns))
        for entry in passed:
            heappush(self._turns, entry)
        return sequence

    def _first_in_turn(self) -> Sequence | None:
        """Of the lines. An entry that is older than its tenant's turn is put right when it comes to the top."""
        while self._turns:
            turn, tenant = self._turns[0]
            if self._turn_of.get(tenant) != turn:
                heappop(self._turns)
                continue
            rank, sequence = self._lines[tenant].first
            now = self._turn(rank, sequence)
            if now == turn:
                return sequence
            self._turn_of[tenant] = now
            heapreplace(self._turns, (now, tenant))
        return None

    def _enter_turn(self, tenant: str) -> None:
        self._turn_of[tenant] = turn = self._turn(*self._lines[tenant].first)
        if len(self._turns) > 2 * len(self._turn_of) + _SLACK:
            self._turns = [(turn, tenant) for tenant, turn in self._turn_of.items()]
            heapify(self._turns)
        else:
            heappush(self._turns, (turn, tenant))
