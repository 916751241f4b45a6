from services.scheduler.core.flight import Flight
from services.scheduler.core.send_time import SEND_AHEAD_US, send_us


def flight(sent_us, predicted_us):
    return Flight(1, 1, sent_us, 0, 1, None, None, None, (), predicted_us=predicted_us)


def test_a_plan_leaves_a_little_before_the_executor_is_done():
    """With one plan unanswered, that is before its predicted end, counted from when it was sent to an idle executor."""
    assert send_us([flight(10_000, 5_000)], 9_000) == 15_000 - SEND_AHEAD_US


def test_a_step_begins_when_the_one_before_it_has_ended():
    """A plan sent while another ran is counted from that one's result."""
    assert send_us([flight(10_000, 5_000)], 13_000) == 18_000 - SEND_AHEAD_US


def test_plans_behind_each_other_take_their_times_together():
    """With two unanswered, the third may wait for both."""
    assert send_us([flight(10_000, 5_000), flight(12_000, 7_000)], 0) == 22_000 - SEND_AHEAD_US


def test_behind_a_long_step_no_plan_leaves():
    """It leaves when the result has come: newcomers are not to wait for two long steps."""
    assert send_us([flight(10_000, 26_000)], 0) is None
    assert send_us([flight(10_000, 5_000)], 0, next_us=26_000) is None


def test_behind_a_step_of_unknown_length_no_plan_leaves():
    """A prediction of 0 is none: it may be long."""
    assert send_us([flight(10_000, 0)], 0) is None
