"""Progress: when steps ended, how long they take, and what that promises to those who wait."""

from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from services.scheduler.core.step_time import StepTime

STALL_US = 2_000_000
STALL_STEPS = 5
MIN_RETRY_US, MAX_RETRY_US = 100_000, 60_000_000
MIN_TIME_LIMIT_US = 10_000_000
TIME_LIMIT_STEPS = 20


class Progress:
    """The clock side of the core."""

    def __init__(self, settings: CoreSettings) -> None:
        self.step_time = StepTime()
        self._token_budget = settings.token_budget
        self._moved_us = 0
        self._last_step_us = -1

    def moved(self, at_us: int) -> None:
        """Something was computed, or there was nothing to compute until now."""
        self._moved_us = at_us

    def executor_came(self, session: Session, at_us: int) -> None:
        self._token_budget = session.token_budget
        self.moved(at_us)

    def step_ended(self, num_tokens: int, step_us: int, at_us: int) -> None:
        self.step_time.observe(num_tokens, step_us)
        self._moved_us = self._last_step_us = at_us

    @property
    def full_step_us(self) -> int:
        """How long a step that uses the whole budget is predicted to take."""
        return self.step_time.predict_us(self._token_budget)

    def is_recent(self, at_us: int) -> bool:
        """Whether the newest step is no older than one that is late."""
        return at_us - self._moved_us <= max(STALL_US, STALL_STEPS * self.full_step_us)

    def last_step_age_us(self, at_us: int) -> int:
        """0 before the first."""
        return max(0, at_us - self._last_step_us) if self._last_step_us >= 0 else 0

    def time_limit_us(self, predicted_us: int) -> int:
        """A step older than this is hung."""
        return max(MIN_TIME_LIMIT_US, TIME_LIMIT_STEPS * predicted_us)

    def wait_us(self, queue: WaitingQueue, before: Sequence | None = None) -> int:
        """How long the prompts that wait (those before `before`) take to compute with all of the budget."""
        num_tokens = 0
        for sequence in queue:
            if sequence is before:
                break
            num_tokens += sequence.num_stored
        return -(-num_tokens // self._token_budget) * self.full_step_us

    def retry_after_us(self, queue: WaitingQueue) -> int:
        """When half of the queue has gone, by the model of `wait_us`."""
        return min(MAX_RETRY_US, max(MIN_RETRY_US, self.wait_us(queue) // 2))
