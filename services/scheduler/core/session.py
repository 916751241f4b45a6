"""A session: all that lives and dies with one executor process."""

from collections import deque

import numpy as np

from services.scheduler.core.flight import Flight
from services.scheduler.core.kv_cache import KvCache
from services.scheduler.core.quota import Quotas
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence, State
from services.scheduler.core.settings import CoreSettings
from services.wire.execution import AdmittedSlot, Capacity
from services.wire.message import INT32, int32_column


class Session:
    """Slots, blocks and unanswered plans. A lost executor means a new one, with nothing in it."""

    def __init__(self, number: int, capacity: Capacity, settings: CoreSettings, quotas: Quotas) -> None:
        group = capacity.groups[0]
        self.number = number
        self.capacity = capacity
        self.token_budget = min(settings.token_budget, capacity.max_step_tokens)
        self.kv = KvCache(group.num_blocks, group.block_size, prefix_cache=settings.prefix_cache)
        self.running = Running(min(settings.max_slots, capacity.max_slots), group.block_size)
        self.flights: deque[Flight] = deque()
        self.num_plans = 0
        self._quotas = quotas

    def occupy(self, sequence: Sequence, hits: list[int], at_us: int) -> AdmittedSlot:
        """Gives a waiting sequence blocks and a slot; undone by `vacate`."""
        self.kv.place(sequence, hits)
        self._quotas.charge(sequence, self.running.final_blocks(sequence))
        sequence.account.blocks_since_us = at_us
        submit, computed, token_ids = sequence.submit, len(hits) * self.kv.block_size, bytes(sequence.stored)
        self.running.seat(sequence, computed)
        return AdmittedSlot(
            slot=sequence.slot,
            token_ids=np.frombuffer(token_ids, INT32),
            prompt_length=submit.prompt_length,
            computed_length=computed,
            token_limit=sequence.limit,
            blocks=int32_column(sequence.table),
            seed=submit.seed,
            sampling=submit.sampling,
            traceparent=submit.traceparent,
        )

    def vacate(self, sequence: Sequence, state: State, at_us: int, *, keep_blocks: bool = True) -> None:
        """Takes slot and blocks back. What answered plans have computed stays cached, unless it is not to be trusted."""
        computed = self.running.answered(sequence)
        self._quotas.discharge(sequence, self.running.final_blocks(sequence))
        sequence.account.hold_blocks(len(sequence.table), at_us)
        self.running.unseat(sequence, state)
        if keep_blocks:
            self.kv.publish(sequence, computed)
        else:
            self.kv.forget(sequence)
        self.kv.release(sequence)

    def check_integrity(self) -> None:
        self.running.check_integrity()
        self.kv.check_integrity(self.running)
