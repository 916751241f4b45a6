"""The instant executor: answers every plan at once with made-up tokens, and checks and computes nothing.

A benchmark of the core has it in the executor's place, so that the caches which the core finds cold or warm are its own.
"""

import numpy as np

from services.wire.execution import Capacity, KvGroup, ModelCard, Reset, StepPlan, StepResult
from services.wire.message import int32_column

BLOCK_SIZE = 16
VOCAB_SIZE = 49_152
CONTEXT_LENGTH = 8192
STEP_US = 5000


class InstantExecutor:
    """Follows lengths and the decode set, which is all that an answer's shape depends on."""

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self.reset(0, Reset(max_slots=1, max_step_tokens=1))

    def reset(self, session: int, reset: Reset) -> Capacity:
        """Forgets all slots; takes any number of slots and tokens."""
        self._known = np.zeros(reset.max_slots, np.int64)
        self._computed = np.zeros(reset.max_slots, np.int64)
        self._limit = np.zeros(reset.max_slots, np.int64)
        self._decoding = np.zeros(reset.max_slots, np.bool_)
        card = ModelCard(
            name="instant",
            fingerprint=f"instant {session}",
            numerics_digest="instant",
            batch_invariant=True,
            context_length=CONTEXT_LENGTH,
            vocab_size=VOCAB_SIZE,
        )
        return Capacity(
            groups=(KvGroup(num_blocks=self._num_blocks, block_size=BLOCK_SIZE, bytes_per_token=1),),
            max_slots=reset.max_slots,
            max_step_tokens=reset.max_step_tokens,
            card=card,
        )

    def step(self, plan: StepPlan) -> StepResult:
        """A token for each slot that decodes, and for each whose last known token is computed."""
        self._update(plan)
        decoding = np.flatnonzero(self._decoding)
        self._computed[decoding] += 1
        self._computed[plan.chunk_slots] += plan.chunk_counts
        slots = np.concatenate((decoding, plan.chunk_slots))
        slots = slots[(self._computed[slots] == self._known[slots]) & (self._known[slots] < self._limit[slots])]
        self._known[slots] += 1
        self._decoding[slots[self._known[slots] == self._limit[slots]]] = False
        tokens = (self._known[slots] * 31 + slots) % VOCAB_SIZE
        return StepResult(
            plan=plan.plan,
            slots=int32_column(slots),
            counts=int32_column(np.ones(len(slots))),
            tokens=int32_column(tokens),
            forward_us=STEP_US,
            step_us=STEP_US,
        )

    def _update(self, plan: StepPlan) -> None:
        self._decoding[plan.released] = False
        self._decoding[plan.paused] = False
        for admitted in plan.admitted:
            self._known[admitted.slot] = len(admitted.token_ids)
            self._computed[admitted.slot] = admitted.computed_length
            self._limit[admitted.slot] = admitted.token_limit
        self._decoding[plan.started] = True
