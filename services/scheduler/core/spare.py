"""Spare work: how much of a step goes to latency classes that take what the others leave."""

import numpy as np

from services.scheduler.core.columns import Slots
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.running import Running
from services.scheduler.core.step_cost import StepCost

QUIET_US = 1_000_000
"""When nothing else has come for so long, spare work has the whole of a step."""
_SHARE = 20
_RESERVE = 8
_UNLIMITED = 1 << 40


class Spare:
    """Chosen anew for each step. Others are called urgent here.

    Beside urgent work spare tokens add a twentieth to the predicted step, and one token at least, so that they go on.
    Between urgent requests a step of spare work alone takes as long as one of urgent work would, so that a newcomer waits
    no longer for it than it would for that. An eighth of the slots is kept free for newcomers.
    """

    def __init__(self, running: Running, queue: WaitingQueue, cost: StepCost) -> None:
        self.left = 0
        """Spare tokens that the step has room for."""
        self._running = running
        self._queue = queue
        self._cost = cost
        self._turn = 0
        self._urgent_us = -QUIET_US - 1
        self._urgent_step_us = 0
        self._at_us = 0

    def begin_step(self, at_us: int) -> None:
        self._at_us, self.left = at_us, _UNLIMITED
        if self._has_urgent:
            self._urgent_us = at_us

    @property
    def is_there(self) -> bool:
        """Whether there is any."""
        return bool(self._running.num_spare or self._queue.num_spare)

    @property
    def may_enter(self) -> bool:
        """Whether a slot may be given to it."""
        return self._is_quiet or self._running.num_free > self._running.num_slots // _RESERVE

    def choose(self, ready: Slots) -> Slots:
        """Of the slots that could decode all urgent ones, and of the spare ones those in turn that there is room for."""
        columns = self._running.columns
        is_spare = columns.spare[ready]
        urgent, spare = ready[~is_spare], ready[is_spare]
        computed = columns.computed
        context = int(computed[urgent].sum()) + len(urgent)
        self.left = self._room(len(urgent), context, int(computed[spare].max(initial=0)) + 1)
        if self.left < len(spare):
            first = int(np.searchsorted(spare, self._turn))
            spare = spare[np.arange(first, first + self.left) % len(spare)]
            self._turn = int(spare[-1]) + 1
        self.left -= len(spare)
        return np.sort(np.concatenate((urgent, spare)))

    def _room(self, num_urgent: int, context: int, context_each: int) -> int:
        if self._is_quiet:
            return _UNLIMITED
        step_us = self._cost.predict_us(num_urgent, context)
        spare_us = step_us // _SHARE
        if self._has_urgent:
            self._urgent_step_us = step_us
        else:
            spare_us = self._urgent_step_us - step_us
        room = self._cost.tokens_within(spare_us, 0, context_each)
        return max(1, room) if room >= 0 else _UNLIMITED

    @property
    def _has_urgent(self) -> bool:
        return len(self._running) > self._running.num_spare or len(self._queue) > self._queue.num_spare

    @property
    def _is_quiet(self) -> bool:
        return self._at_us - self._urgent_us > QUIET_US
