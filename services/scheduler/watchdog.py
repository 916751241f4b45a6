"""When an executor is lost: the verdict over what has been seen of it. Pure; times in us."""

from collections import deque
from dataclasses import dataclass, field

from services.wire.execution import StepPlan

RESET_TIMEOUT_US = 60_000_000  # to allocate the KV pool


@dataclass(slots=True)
class Watchdog:
    """Watches one session, from its Reset on. Loading needs no watch: there is no session yet."""

    lost_timeout_us: int
    last_heard_us: int
    reset_sent_us: int | None  # until Capacity comes
    _unanswered: deque[tuple[int, int]] = field(default_factory=deque)  # (plan, its limit in us), oldest first
    _oldest_began_us: int = 0

    def heard(self, at_us: int) -> None:
        self.last_heard_us = at_us

    def capacity_came(self, at_us: int) -> None:
        self.last_heard_us = at_us
        self.reset_sent_us = None

    def plan_sent(self, plan: StepPlan, at_us: int) -> None:
        if not self._unanswered:
            self._oldest_began_us = at_us
        self._unanswered.append((plan.plan, plan.time_limit_ms * 1000))

    def is_due(self, plan: int) -> bool:
        """Whether a result of `plan` is what the executor owes next."""
        return bool(self._unanswered) and self._unanswered[0][0] == plan

    def result_came(self, at_us: int) -> None:
        """The oldest plan is answered; plans run in order, so the next begins now."""
        self._unanswered.popleft()
        self._oldest_began_us = at_us

    def verdict(self, at_us: int) -> str | None:
        """Why the executor is lost, or None while it is not."""
        if at_us - self.last_heard_us >= self.lost_timeout_us:
            return f"no heartbeat for {(at_us - self.last_heard_us) / 1e6:.1f} s"
        if self.reset_sent_us is not None and at_us - self.reset_sent_us >= RESET_TIMEOUT_US:
            return f"no answer to a reset for {RESET_TIMEOUT_US / 1e6:.0f} s"
        if self._unanswered:
            plan, limit_us = self._unanswered[0]
            if limit_us and at_us - self._oldest_began_us >= limit_us:
                return f"step {plan} is older than its limit of {limit_us // 1000} ms"
        return None
