"""The columns: what changes with each step, one row for each slot."""

import numpy as np
import numpy.typing as npt

from services.wire.message import INT32, Int32Column

NEVER = -1
Slots = npt.NDArray[np.intp]


class Columns:
    """Struct of arrays, so that a step costs a few vector operations whatever the batch.

    A sequence is (`known`, `computed`): tokens that the core knows, and tokens whose keys and values are there once all
    plans sent have run. It decodes while `ready`; its next change comes when `computed` reaches `event`.
    """

    def __init__(self, num_slots: int, block_size: int) -> None:
        def column(value: int = 0) -> Int32Column:
            return np.full(num_slots, value, np.int32)

        self.computed = column()
        self.known = column()
        self.limit = column()
        self.goal = column()
        self.event = column(NEVER)
        """The length at which its last block is full, or its goal, whichever comes first; NEVER unless `ready`."""
        self.ready = np.zeros(num_slots, np.bool_)
        """All tokens known at admission are computed, or planned to be, and the goal is not reached."""
        self.spare = np.zeros(num_slots, np.bool_)
        """Of a class that takes what the others leave."""
        self.step = column()
        """1: decodes in the step that is planned next or was planned last."""
        self.told = column()
        """1: in the decode set, as far as the executor has been told."""
        self.generation = column()
        """Counts the sequences that have left the slot."""
        self.router = column()
        self.handle = column()
        self.tbt_us = column()
        """The time between tokens that its class is promised; 0: none."""
        self.num_steps = np.zeros(num_slots, np.int64)
        self.executor_ns = np.zeros(num_slots, np.int64)
        # The newest tokens: position p is at [slot, p // block_size % 2, p % block_size].
        self.tail = np.zeros((num_slots, 2, block_size), INT32)
        self.flat_tail = self.tail.reshape(-1)
        self.tail_start = np.arange(num_slots) * 2 * block_size
        self.tail_size = 2 * block_size
        self._cleared: tuple[npt.NDArray[np.signedinteger], ...] = (
            self.computed,
            self.known,
            self.limit,
            self.goal,
            self.step,
            self.told,
            self.tbt_us,
            self.num_steps,
            self.executor_ns,
        )

    def append_tokens(self, slots: Slots, tokens: Int32Column) -> Int32Column:
        """One more known token for each of `slots`; returns their new lengths."""
        length: Int32Column = self.known[slots]
        self.flat_tail[self.tail_start[slots] + length % self.tail_size] = tokens
        length += 1
        self.known[slots] = length
        return length

    def clear(self, slot: int) -> None:
        """The slot is empty again; what is in flight for it answers to an older generation."""
        self.generation[slot] += 1
        self.event[slot] = NEVER
        for column in self._cleared:
            column[slot] = 0
        self.ready[slot] = self.spare[slot] = False
