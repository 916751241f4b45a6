"""The truth about progress: what readiness tells, from when steps end and heartbeats come. Pure; times in us."""

from dataclasses import dataclass

STALL_US = 2_000_000
STALL_STEPS = 5  # predicted ones


@dataclass(slots=True)
class Progress:
    """Work is moving, or there is none, and an executor is there for more."""

    heartbeat_timeout_us: int
    last_heartbeat_us: int | None = None  # of an executor that has a session; None: there has not been one
    last_step_us: int | None = None  # when a step last ended
    pending_since_us: int | None = None  # when work came that has not ended since; None: there is none

    def heard(self, at_us: int) -> None:
        """A sign of life of the executor that has the session."""
        self.last_heartbeat_us = at_us

    def step_ended(self, at_us: int) -> None:
        self.last_step_us = at_us

    def note_pending(self, at_us: int, *, pending: bool) -> None:
        """Whether any sequence waits or runs."""
        if not pending:
            self.pending_since_us = None
        elif self.pending_since_us is None:
            self.pending_since_us = at_us

    def step_age_us(self, at_us: int) -> int:
        """For how long work has been pending without a step that ended; 0 without work."""
        if self.pending_since_us is None:
            return 0
        return at_us - max(self.pending_since_us, self.last_step_us or 0)

    def making_progress(self, at_us: int, predicted_step_us: int) -> bool:
        if self.last_heartbeat_us is None or at_us - self.last_heartbeat_us >= self.heartbeat_timeout_us:
            return False
        return self.step_age_us(at_us) < max(STALL_US, STALL_STEPS * predicted_step_us)
