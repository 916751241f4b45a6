"""The queue time: how long a newcomer is predicted to wait for a slot."""

from dataclasses import dataclass

import numpy as np

from services.scheduler.core.progress import Progress
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.session import Session

MIN_RETRY_US, MAX_RETRY_US = 100_000, 60_000_000
_EVEN = 1024
_WINDOW = 16
_LEAST, _MOST = _EVEN // 16, 4 * _EVEN


class QueueTime:
    """By the step-time model: the prompts before it are computed, and as many of the running end as it has to wait for.

    Those that run are taken to end at the same part of what they may draw as those that have ended of late, and what has
    been waited for, beside what had been predicted, corrects the whole.
    """

    def __init__(self, queue: WaitingQueue, progress: Progress) -> None:
        self._queue = queue
        self._progress = progress
        self._correction = _EVEN
        self._drawn_part = _EVEN
        self._ends: _Ends | None = None

    def predict_us(self, session: Session | None, newcomer: Sequence) -> int:
        """Of one that joins now and is no spare work; 0 as well before steps of several sizes have ended."""
        if not self._progress.cost.is_fitted:
            return 0
        num_before, num_tokens = self._queue.before(newcomer)
        return self._model_us(session, num_before, num_tokens) * self._correction // _EVEN

    def retry_after_us(self, session: Session | None) -> int:
        """When half of those that wait, spare work left out, have gone."""
        queue = self._queue
        wait_us = self._model_us(session, len(queue) - queue.num_spare, queue.num_tokens - queue.num_spare_tokens)
        return min(MAX_RETRY_US, max(MIN_RETRY_US, wait_us * self._correction // _EVEN // 2))

    def waited(self, predicted_us: int, waited_us: int) -> None:
        """One has been admitted whose wait had been predicted; 0: none had been."""
        if predicted_us:
            correction = min(_MOST, max(_LEAST, waited_us * self._correction // predicted_us))
            self._correction += (correction - self._correction) // _WINDOW

    def ended(self, num_drawn: int, num_allowed: int) -> None:
        """One that ran has ended with so many tokens of those that it could have drawn."""
        if num_allowed > 0:
            self._drawn_part += (num_drawn * _EVEN // num_allowed - self._drawn_part) // _WINDOW

    def _model_us(self, session: Session | None, num_before: int, num_tokens: int) -> int:
        prompts_us = self._progress.prompts_us(num_tokens) if num_tokens else 0
        if session is None:
            return prompts_us
        running = session.running
        num_ends = num_before + 1 - self._num_free(running, num_before)
        if num_ends < 1 or len(running) == running.num_spare:
            return prompts_us
        ends = self._look_at(session)
        rounds, last = divmod(num_ends - 1, len(ends.remaining))
        num_steps = (rounds * ends.mean + ends.remaining[last]) * self._drawn_part // _EVEN
        return prompts_us + num_steps * ends.decode_us

    def _num_free(self, running: Running, num_before: int) -> int:
        """Slots that spare work does not keep from others; none while the one that is next needs blocks, not a slot."""
        head = self._queue.head if num_before else None
        is_blocked = head is not None and head.blocked_us >= 0 and not head.is_spare
        return 0 if is_blocked else running.num_free + running.num_spare

    def _look_at(self, session: Session) -> "_Ends":
        """As they were when the newest plan left, or somebody has left a slot since: many may come in between."""
        running, columns = session.running, session.running.columns
        moment = session.number, session.num_plans, running.num_left
        if self._ends is None or self._ends.moment != moment:
            remaining = np.sort((columns.limit - columns.known)[(columns.limit > 0) & ~columns.spare]).tolist()
            mean = 2 * sum(remaining) // len(remaining)
            self._ends = _Ends(moment, remaining, mean, self._progress.decode_us(len(remaining)))
        return self._ends


@dataclass(frozen=True, slots=True)
class _Ends:
    """How far the running are from their limits, in tokens."""

    moment: tuple[int, int, int]
    remaining: list[int]
    mean: int
    """Of a whole answer: twice what is left in the mean."""
    decode_us: int
