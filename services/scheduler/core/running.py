"""The running: sequences that have a slot at the executor, and which of them decode in the next step."""

from collections.abc import Callable, Iterator

import numpy as np

from services.scheduler.core.columns import NEVER, Columns, Slots
from services.scheduler.core.sequence import TOKEN_BYTES, Sequence, State
from services.wire.message import INT32

_NOBODY: Slots = np.empty(0, np.intp)


class Running:
    """Slots and their columns in one executor session.

    The decode set is state at the executor; here it is `columns.step`. It follows `columns.ready` unless more are
    ready than the budget allows: then a ring of them, one seat of it for prefill, takes turns.
    """

    def __init__(self, num_slots: int, block_size: int) -> None:
        self.columns = Columns(num_slots, block_size)
        self.num_slots = num_slots
        self.block_size = block_size
        self.growth = 0
        """Blocks that the running may still come to need."""
        self.num_spare = 0
        """Those of a class that takes what the others leave."""
        self.num_left = 0
        """Sequences that have left a slot, ever."""
        self.released: list[int] = []
        """Slots that the executor has not been told to forget yet."""
        self.decoding: Slots = _NOBODY
        self.decoding_generations = self.columns.generation[:0]
        self.decode_context = 0
        """Tokens that the decode set reads in its next step, those computed in it included."""
        self.decode_tbt_us = 0
        """The shortest time between tokens that one of the decode set is promised; 0: none."""
        self.sequences: list[Sequence | None] = [None] * num_slots
        self.struck: dict[int, Sequence] = {}
        """Those with strikes, by the order of their admission."""
        self._by_order: dict[int, Sequence] = {}
        self._prefilling: dict[int, Sequence] = {}
        self._free_slots = list(range(num_slots - 1, -1, -1))
        self._next_order = 0
        self._turn = 0
        self._is_stale = False
        self._is_untold = False

    def __len__(self) -> int:
        return len(self._by_order)

    def __iter__(self) -> Iterator[Sequence]:
        """In the order of their admission."""
        return iter(self._by_order.values())

    @property
    def prefilling(self) -> list[Sequence]:
        """Those with known tokens that no plan computes yet, in the order of their admission."""
        return list(self._prefilling.values())

    @property
    def has_prefilling(self) -> bool:
        return bool(self._prefilling)

    @property
    def has_ready(self) -> bool:
        return bool(self.columns.ready.any())

    @property
    def num_free(self) -> int:
        return len(self._free_slots)

    @property
    def is_full(self) -> bool:
        return not self._free_slots

    def known(self, sequence: Sequence) -> int:
        """Tokens known of it, running or not."""
        return int(self.columns.known[sequence.slot]) if sequence.is_running else sequence.num_stored

    def computed(self, sequence: Sequence) -> int:
        """Tokens computed once all plans sent have run."""
        return int(self.columns.computed[sequence.slot])

    def answered(self, sequence: Sequence) -> int:
        """Tokens computed by answered plans."""
        if sequence.answered < sequence.admitted_length:
            return sequence.answered
        return max(sequence.answered, int(self.columns.known[sequence.slot]) - 1)

    def final_blocks(self, sequence: Sequence) -> int:
        """Blocks that it holds at its limit."""
        return -(-sequence.goal // self.block_size)

    def seat(self, sequence: Sequence, computed: int) -> None:
        """Gives a waiting sequence, whose table is placed, a slot; undone by `unseat`."""
        sequence.move(State.RUNNING)
        slot, columns, known = self._free_slots.pop(), self.columns, sequence.num_stored
        sequence.slot, sequence.order = slot, self._next_order
        sequence.admitted_length, sequence.answered = known, computed
        self._next_order += 1
        self.sequences[slot] = self._by_order[sequence.order] = self._prefilling[sequence.order] = sequence
        if sequence.strikes:
            self.struck[sequence.order] = sequence
        self.growth += self.final_blocks(sequence) - len(sequence.table)
        columns.computed[slot], columns.known[slot] = computed, known
        columns.limit[slot], columns.goal[slot] = sequence.limit, sequence.goal
        columns.tbt_us[slot], columns.spare[slot] = sequence.latency_class.tbt_us, sequence.is_spare
        self.num_spare += sequence.is_spare
        columns.router[slot], columns.handle[slot] = sequence.router, sequence.submit.handle
        block, partial = divmod(known, self.block_size)
        if partial:
            columns.tail[slot, block % 2, :partial] = np.frombuffer(sequence.stored, INT32)[-partial:]
            del sequence.stored[-partial * TOKEN_BYTES :]

    def unseat(self, sequence: Sequence, state: State) -> None:
        """Takes the slot back; the sequence keeps all its tokens and goes on to `state`."""
        slot, columns = sequence.slot, self.columns
        sequence.mark = max(sequence.mark, self.answered(sequence))
        self.growth -= self.final_blocks(sequence) - len(sequence.table)
        for position in range(sequence.num_stored, int(columns.known[slot])):
            token = columns.tail[slot, position // self.block_size % 2, position % self.block_size]
            sequence.stored += token.tobytes()
        sequence.account.steps += int(columns.num_steps[slot])
        sequence.account.executor_ns += int(columns.executor_ns[slot])
        columns.clear(slot)
        self.num_spare -= sequence.is_spare
        self.sequences[slot] = None
        del self._by_order[sequence.order]
        self._prefilling.pop(sequence.order, None)
        self.struck.pop(sequence.order, None)
        self._free_slots.append(slot)
        self.released.append(slot)
        self.num_left += 1
        self._is_stale = True
        sequence.slot = NEVER
        sequence.move(state)

    def store_tail(self, sequence: Sequence) -> None:
        """Moves a block of known tokens that is full from the tail to the sequence."""
        block = sequence.num_stored // self.block_size
        if (block + 1) * self.block_size <= self.columns.known[sequence.slot]:
            sequence.stored += self.columns.tail[sequence.slot, block % 2].tobytes()

    def grew(self, sequence: Sequence) -> None:
        """Its table is one block longer."""
        self.growth -= 1
        self.set_event(sequence)

    def set_event(self, sequence: Sequence) -> None:
        self.columns.event[sequence.slot] = min(len(sequence.table) * self.block_size, sequence.goal)

    def compute(self, sequence: Sequence, end: int) -> bool:
        """A chunk up to `end` is planned. Whether it reaches the last known token, so that the next is drawn."""
        slot, columns = sequence.slot, self.columns
        columns.computed[slot] = end
        columns.num_steps[slot] += 1
        if end < sequence.admitted_length:
            return False
        del self._prefilling[sequence.order]
        if end < sequence.goal:
            columns.ready[slot] = True
            self.set_event(sequence)
            self._is_stale = True
        return True

    # ---- the decode set

    def choose_decodes(
        self,
        budget: int,
        *,
        seat_for_prefill: bool,
        alone: Sequence | None,
        choose: Callable[[Slots], Slots] | None = None,
    ) -> None:
        """Decides who decodes in the next step, at most `budget`, of those that `choose` leaves of the ready."""
        if not (self._is_stale or alone or choose or len(self.decoding) + seat_for_prefill > budget):
            return
        columns = self.columns
        chosen = np.flatnonzero(columns.ready)
        if alone:
            chosen = chosen[chosen == alone.slot]
        elif choose:
            chosen = choose(chosen)
        in_turn = len(chosen) + seat_for_prefill > budget
        if in_turn:
            chosen = self._take_turns(chosen, budget, seat_for_prefill=seat_for_prefill)
        columns.step[:] = 0
        columns.step[chosen] = 1
        self._count(chosen)
        self._is_stale = in_turn or alone is not None or choose is not None
        self._is_untold = True

    def _take_turns(self, ready: Slots, budget: int, *, seat_for_prefill: bool) -> Slots:
        """The `budget` seats of the ring that are next; the seat behind the last slot is prefill's."""
        ring = np.append(ready, self.num_slots) if seat_for_prefill else ready
        first = int(np.searchsorted(ring, self._turn))
        seats = ring[np.arange(first, first + budget) % len(ring)]
        self._turn = int(seats[-1]) + 1
        return np.sort(seats[seats < self.num_slots])

    def _count(self, decoding: Slots) -> None:
        self.decoding = decoding
        self.decoding_generations = self.columns.generation[decoding]
        self.decode_context = int(self.columns.computed[decoding].sum()) + len(decoding)
        promised = self.columns.tbt_us[decoding]
        self.decode_tbt_us = int(promised[promised > 0].min()) if promised.any() else 0

    @property
    def num_at_event(self) -> int:
        """Those that decode, in this step or a later one, and whose next token has no block yet."""
        return int(np.count_nonzero(self.columns.computed == self.columns.event))

    def due(self) -> Slots:
        """Slots of the decode set whose next token has no block yet."""
        due = np.flatnonzero(self.columns.computed == self.columns.event)
        return due[self.columns.step[due] > 0] if due.size else due

    def recount(self) -> int:
        """How many decode, now that some may have been preempted."""
        if self._is_stale and len(self.decoding) != np.count_nonzero(self.columns.step):
            self._count(np.flatnonzero(self.columns.step))
        return len(self.decoding)

    def take_released(self) -> list[int]:
        """Slots that the executor has to be told to forget."""
        released, self.released = self.released, []
        return released

    def tell(self) -> tuple[Slots, Slots]:
        """What the executor has to be told of its decode set: (slots that start, slots that pause)."""
        if not self._is_untold:
            return _NOBODY, _NOBODY
        self._is_untold = False
        change = self.columns.step - self.columns.told
        self.columns.told[:] = self.columns.step
        return np.flatnonzero(change > 0), np.flatnonzero(change < 0)

    def advance(self) -> None:
        """Each slot of the decode set computes one token."""
        columns = self.columns
        columns.computed += columns.step
        columns.num_steps += columns.step
        self.decode_context += len(self.decoding)
        at_event = np.flatnonzero(columns.computed == columns.event)
        if at_event.size:
            self._reach_goal(at_event[columns.computed[at_event] == columns.goal[at_event]])

    def _reach_goal(self, slots: Slots) -> None:
        """The executor stops these by itself: they are in its decode set no more, and need not be paused."""
        if slots.size:
            columns = self.columns
            columns.ready[slots] = False
            columns.step[slots] = columns.told[slots] = 0
            columns.event[slots] = NEVER
            self._is_stale = True

    def check_integrity(self) -> None:
        columns = self.columns
        assert sorted([*self._free_slots, *(sequence.slot for sequence in self)]) == list(range(self.num_slots))
        assert self.growth == sum(self.final_blocks(sequence) - len(sequence.table) for sequence in self)
        assert self.num_spare == sum(sequence.is_spare for sequence in self) == np.count_nonzero(columns.spare)
        for sequence in self:
            slot = sequence.slot
            assert self.sequences[slot] is sequence
            assert columns.computed[slot] <= sequence.goal, "more is computed than was asked for"
            assert columns.known[slot] <= sequence.limit, "more tokens than the limit"
            assert columns.computed[slot] <= len(sequence.table) * self.block_size, "computed without a block"
            assert sequence.order not in self._prefilling or not columns.ready[slot]
        assert not columns.step[~columns.ready].any(), "a slot decodes that is not ready"
        if not self._is_stale:
            context = int(columns.computed[self.decoding].sum()) + len(self.decoding)
            assert self.decode_context == context, "the context of the decode set is miscounted"
        empty = [slot for slot, sequence in enumerate(self.sequences) if sequence is None]
        assert not columns.ready[empty].any(), "an empty slot is ready"
