"""The watchdog's verdict, in no time at all."""

from services.scheduler.watchdog import RESET_TIMEOUT_US, Watchdog
from services.wire.execution import StepPlan


def _watchdog(reset_sent_us=None):
    return Watchdog(5_000_000, last_heard_us=0, reset_sent_us=reset_sent_us)


def test_silence_is_a_loss():
    """An executor is lost when nothing has been heard for the timeout, and not before."""
    watchdog = _watchdog()
    assert watchdog.verdict(4_999_999) is None
    assert "heartbeat" in watchdog.verdict(5_000_000)
    watchdog.heard(4_000_000)
    assert watchdog.verdict(8_999_999) is None


def test_a_step_older_than_its_limit_is_a_loss():
    """Heartbeats do not save an executor whose step hangs."""
    watchdog = _watchdog()
    watchdog.plan_sent(StepPlan(plan=1, time_limit_ms=100), 1_000_000)
    watchdog.heard(1_099_999)
    assert watchdog.verdict(1_099_999) is None
    assert "step 1" in watchdog.verdict(1_100_000)


def test_a_queued_step_begins_when_the_one_before_it_ends():
    """At depth 2 the second plan's time starts with the first result."""
    watchdog = _watchdog()
    watchdog.plan_sent(StepPlan(plan=1, time_limit_ms=100), 0)
    watchdog.plan_sent(StepPlan(plan=2, time_limit_ms=100), 10_000)
    watchdog.result_came(90_000)
    assert watchdog.verdict(189_999) is None
    assert "step 2" in watchdog.verdict(190_000)


def test_a_step_without_a_limit_may_take_long():
    """Limit 0 is none."""
    watchdog = _watchdog()
    watchdog.plan_sent(StepPlan(plan=1), 0)
    watchdog.heard(100_000_000)
    assert watchdog.verdict(100_000_000) is None


def test_results_are_due_in_order():
    """Only the oldest unanswered plan may be answered."""
    watchdog = _watchdog()
    assert not watchdog.is_due(1)
    watchdog.plan_sent(StepPlan(plan=1), 0)
    watchdog.plan_sent(StepPlan(plan=2), 0)
    assert watchdog.is_due(1)
    assert not watchdog.is_due(2)
    watchdog.result_came(1)
    assert watchdog.is_due(2)


def test_a_reset_that_is_never_answered_is_a_loss():
    """A process that beats but never gives its capacity is given up; one that gave it is not."""
    watchdog = _watchdog(reset_sent_us=0)
    watchdog.heard(RESET_TIMEOUT_US)
    assert "reset" in watchdog.verdict(RESET_TIMEOUT_US)
    watchdog.capacity_came(RESET_TIMEOUT_US)
    assert watchdog.verdict(RESET_TIMEOUT_US) is None
