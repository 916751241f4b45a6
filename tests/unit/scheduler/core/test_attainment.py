from services.scheduler.core.attainment import Attainment
from services.scheduler.core.latency_class import LatencyClass
from services.scheduler.core.sequence import Sequence
from services.wire.scheduling import ClassCounts
from tests.unit.scheduler.core.helpers import sequence


def begun(first_token_us: int, name: str = "chat") -> Sequence:
    made = sequence(1)
    made.latency_class = LatencyClass(name, ttft_us=1000, tbt_us=100)
    made.account.first_token_us = first_token_us
    return made


def test_each_target_is_counted_by_class():
    """The first token within 1 ms of the arrival, the others within 100 us each in the mean."""
    counts = Attainment()
    counts.end(begun(1000), 11, 2000)
    counts.end(begun(1001), 11, 2001)
    counts.end(begun(1000), 11, 2001)
    counts.end(begun(500, "other"), 1, 500)
    assert counts.take() == (
        ClassCounts(name="chat", ended=3, ttft_met=2, tbt_met=2, both_met=1),
        ClassCounts(name="other", ended=1, ttft_met=1, tbt_met=1, both_met=1),
    )
    assert counts.take() == ()


def test_who_never_began_has_met_nothing():
    """It has ended all the same."""
    counts = Attainment()
    counts.end(begun(-1), 0, 10)
    assert counts.take() == (ClassCounts(name="chat", ended=1),)


def test_a_target_that_a_class_does_not_have_is_met():
    """By all that have begun, so that both are met where the other one is."""
    counts = Attainment()
    for name, ttft_us, tbt_us in (("first", 1000, 0), ("steady", 0, 100)):
        for first_us in (1000, 1001, -1):
            one = begun(first_us, name)
            one.latency_class = LatencyClass(name, ttft_us=ttft_us, tbt_us=tbt_us)
            counts.end(one, 11, 2000)
    assert counts.take() == (
        ClassCounts(name="first", ended=3, ttft_met=1, tbt_met=2, both_met=1),
        ClassCounts(name="steady", ended=3, ttft_met=2, tbt_met=2, both_met=2),
    )


def test_who_was_promised_nothing_is_not_counted():
    """Nor is spare work."""
    counts = Attainment()
    counts.end(sequence(1), 3, 10)
    assert counts.take() == ()
