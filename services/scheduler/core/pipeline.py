"""The pipeline: how many plans may be unanswered, and when one leaves that follows unanswered ones."""

from services.scheduler.core.planner import Planner
from services.scheduler.core.progress import Progress
from services.scheduler.core.session import Session

SEND_AHEAD_US = 2_000
"""A few times what a plan takes to be made, sent and read."""
LONGEST_US = 25_000
"""With longer steps there is next to nothing to gain, and whoever comes too late for a plan waits for one more."""


class Pipeline:
    """Of one executor session."""

    def __init__(self, session: Session, planner: Planner, progress: Progress, depth: int) -> None:
        self._session = session
        self._planner = planner
        self._progress = progress
        self._depth = depth
        self.due_us: int | None = None
        """When a plan that was too early is not any more; None: an event is awaited, or nothing."""

    @property
    def is_full(self) -> bool:
        return len(self._session.flights) >= self._depth

    def is_time(self, at_us: int) -> bool:
        """Whether the next plan may leave now. The planner has begun its step."""
        self.due_us = None
        if not self._session.flights:
            return True
        send_us = self._send_us()
        if send_us is None or send_us > at_us:
            self.due_us = send_us
            return False
        return self._planner.has_room  # the result may free blocks: nobody gives way before it has come

    def _send_us(self) -> int | None:
        """A little before the executor is predicted to run out of plans: what arrives until then joins the next step.

        None: not before a result has come, for a step is long, or nothing is known of steps yet.
        """
        flights = self._session.flights
        started_us = max(flights[0].sent_us, self._progress.last_step_us)
        predicted_us = sum(flight.predicted_us for flight in flights)
        next_us = self._progress.full_step_us if self._planner.has_prefill else 0
        if not predicted_us or max(predicted_us, next_us) > LONGEST_US:
            return None
        return started_us + predicted_us - SEND_AHEAD_US
