"""Blocked: one that does not fit is passed by shorter ones, for a bounded time, on the virtual clock."""

import pytest

from services.scheduler.answers import Answer
from services.scheduler.driver import Driver
from tests.simulation.runs import ENDLESS, driver, is_right, tokens
from tests.simulation.strict_engine import StrictEngine


def crowd(policy: str, pass_us: int) -> tuple[Driver, Answer, list[Answer]]:
    """20 blocks: short requests come without end and hold 12 at a time, and one that needs 16 comes among them."""
    d = driver(StrictEngine(num_blocks=20), policy=policy, pass_blocked_us=pass_us, prefix_cache=False)
    shorts = [
        d.submit(tokens(16, at_us), max_tokens=30, sampling=ENDLESS, at_us=at_us, tenant="short")
        for at_us in range(0, 900_000, 8000)
    ]
    long = d.submit(tokens(240), max_tokens=10, sampling=ENDLESS, at_us=100_500, tenant="long")
    return d, long, shorts


def passed(long: Answer, shorts: list[Answer]) -> list[Answer]:
    """Those that came after the long one and started before it."""
    started_us = long.submitted_us + long.finished.queued_us
    began = [answer for answer in shorts if long.submitted_us < answer.submitted_us and answer.token_times_us]
    return [answer for answer in began if answer.token_times_us[0] < started_us]


@pytest.mark.parametrize("policy", ["fcfs", "priority", "deadline"])
def test_short_requests_pass_a_blocked_one_for_a_bounded_time(policy: str):
    """For 200 ms; then all wait until those that run have made room, which takes them 31 steps at most."""
    d, long, shorts = crowd(policy, 200_000)
    d.run()
    assert len(passed(long, shorts)) > 15
    assert long.finished.queued_us <= 200_000 + 40_000
    assert all(is_right(answer) for answer in (long, *shorts))


def test_between_tenants_the_lead_that_passing_gives_is_bounded():
    """By what the blocked one costs at most: 250 tokens, which is what six or seven short ones do."""
    d, long, shorts = crowd("fair", 200_000)
    d.run()
    lead = sum(16 + 2 * 30 for _ in passed(long, shorts))
    assert 250 <= lead <= 2 * 250 + 12 * 16 * 2
    assert long.finished.queued_us <= 200_000 + 40_000
    assert all(is_right(answer) for answer in (long, *shorts))


def test_with_no_time_to_pass_the_order_is_strict():
    """Nobody who came after it starts before it."""
    d, long, shorts = crowd("fcfs", 0)
    d.run()
    started_us = long.submitted_us + long.finished.queued_us
    assert started_us <= long.submitted_us + 40_000
    late = [answer for answer in shorts if answer.submitted_us > long.submitted_us + 1000]
    assert min(answer.token_times_us[0] for answer in late) > started_us
