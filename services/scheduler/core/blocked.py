"""The blocked: those that were next and did not fit, and who may pass them meanwhile."""

from services.scheduler.core.block_pool import BlockPool
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.sequence import Sequence

MOST_HELD = 4


class Blocked:
    """One that does not fit costs nothing more until something is released; then it is tried before all others again.

    Others that do fit may pass it, and up to three more that do not, for `pass_us` from when it was first in need: short
    requests use what is left of the pool, and a long one is not passed for ever. From then on all wait until it fits.
    The policy may keep some from passing even before.
    """

    def __init__(self, queue: WaitingQueue, pool: BlockPool, *, pass_us: int) -> None:
        self._queue = queue
        self._pool = pool
        self._pass_us = pass_us
        self._newest = (-1, -1)
        self._num_releases = 0
        self._pass_ends_us = 0

    def begin_step(self, at_us: int) -> None:
        """Holds nobody any more who may fit now, or has been passed for long enough."""
        if self._queue.num_held and (self._num_releases != self._pool.num_releases or at_us >= self._pass_ends_us):
            self._queue.unhold()

    def is_blocked(self, sequence: Sequence) -> bool:
        """Whether nothing has been released since it did not fit."""
        is_held = self._queue.is_held(sequence) and self._num_releases == self._pool.num_releases
        return is_held or self._newest == (sequence.serial, self._pool.num_releases)

    def note(self, sequence: Sequence, at_us: int) -> None:
        """It is next and does not fit."""
        self._newest = (sequence.serial, self._pool.num_releases)
        sequence.blocked_us = at_us if sequence.blocked_us < 0 else sequence.blocked_us

    def may_pass(self, sequence: Sequence) -> bool:
        """Whether one that is next may go before those that are held."""
        return all(self._queue.policy.may_pass(sequence, held) for held in self._queue.held)

    def may_be_passed(self, sequence: Sequence, at_us: int) -> bool:
        """Whether it is held now, so that the next one may be tried."""
        ends_us, queue = sequence.blocked_us + self._pass_us, self._queue
        if at_us >= ends_us or queue.num_held >= MOST_HELD:
            return False
        self._pass_ends_us = min(self._pass_ends_us, ends_us) if queue.num_held else ends_us
        self._num_releases = self._pool.num_releases
        queue.hold(sequence)
        return True
