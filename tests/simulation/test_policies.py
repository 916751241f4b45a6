"""Policies: what each promises to those who wait, under load without end, on the virtual clock."""

import pytest

from services.scheduler.answers import Answer
from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from services.wire.scheduling import RejectReason
from tests.simulation.paced_engine import PacedEngine
from tests.simulation.runs import ENDLESS, driver, is_right, tokens
from tests.simulation.strict_engine import StrictEngine


def roomy(**settings: int | str) -> Driver:
    """A driver whose engine has all the blocks that are wanted, and whose queue takes all."""
    made = Driver(CoreSettings(max_waiting_requests=10**6, max_waiting_tokens=10**9, **settings), PacedEngine())
    made.start()
    return made


def flood(d: Driver, *, until_us: int, every_us: int, **fields: object) -> list[Answer]:
    """Requests at a steady pace, more of them than there is room for."""
    return [
        d.submit(tokens(16, at_us), max_tokens=8, sampling=ENDLESS, at_us=at_us, **fields)
        for at_us in range(0, until_us, every_us)
    ]


def test_priority_passes_what_is_lower():
    """With one slot, the highest that waits is next, whatever came first; equals go in the order of arrival."""
    d = driver(policy="priority", max_slots=1)
    first = d.submit(tokens(10), max_tokens=5, sampling=ENDLESS)
    d.run(until_us=1500)
    waiting = [d.submit(tokens(10, n), max_tokens=5, sampling=ENDLESS, priority=p) for n, p in enumerate((5, 0, 5, -1))]
    d.run()
    order = sorted(range(4), key=lambda number: waiting[number].ended_us)
    assert order == [3, 1, 0, 2]
    assert first.ended_us < waiting[3].ended_us


def test_the_lowest_priority_finishes_under_an_endless_stream_of_the_highest():
    """Ten levels at 50 ms each: what comes later than half a second after it does not pass it."""
    d = driver(policy="priority", max_slots=2, priority_ageing_us=50_000, max_waiting_requests=100_000)
    lows = [d.submit(tokens(16, n), max_tokens=8, sampling=ENDLESS, priority=10, at_us=500_000) for n in range(5)]
    highs = flood(d, until_us=3_000_000, every_us=3000, priority=0)
    d.run(until_us=3_000_000)
    assert sum(not answer.has_ended for answer in highs) > 100, "there was room for all"
    passed = [answer for answer in highs if answer.has_ended and answer.ended_us < lows[0].ended_us]
    assert 900_000 <= max(answer.submitted_us for answer in passed) <= 1_000_000
    assert all(is_right(answer) for answer in lows)


def service_gaps(d: Driver, answers: dict[str, list[Answer]], weights: dict[str, float], from_us: int) -> list[float]:
    """The difference between the services of two tenants since `from_us`, step after step."""
    moments: list[tuple[int, float]] = []
    for (_, mine), sign in zip(sorted(answers.items()), (1, -1), strict=True):
        for answer in mine:
            weight = weights[answer.submit.tenant]
            if answer.token_times_us:
                admitted_us = answer.submitted_us + (answer.finished.queued_us if answer.finished else 0)
                moments.append((admitted_us, sign * len(answer.submit.token_ids) / weight))
            moments += [(at_us, sign * 2 / weight) for at_us in answer.token_times_us]
    gaps, gap = [], 0.0
    for at_us, service in sorted(moments):
        gap += service if at_us >= from_us else 0
        gaps.append(gap)
    return gaps


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_the_service_gap_of_two_backlogged_tenants_stays_within_its_bound(weight: float):
    """One asks ten times as often, with prompts eight times as long, and gets its share and no more.

    The bound of the VTC paper: twice the larger of a prompt's price and the price of all that the slots hold.
    """
    d = roomy(policy="fair", max_slots=8)
    weights = {"busy": 1.0, "quiet": weight}
    answers: dict[str, list[Answer]] = {"busy": [], "quiet": []}
    for number in range(600):
        answers["busy"].append(
            d.submit(tokens(160, number), max_tokens=20, sampling=ENDLESS, tenant="busy", tenant_weight=1.0)
        )
    for number in range(400):
        answers["quiet"].append(
            d.submit(tokens(20, number), max_tokens=60, sampling=ENDLESS, tenant="quiet", tenant_weight=weight)
        )
    d.run(until_us=2_000_000)
    assert all(sum(not answer.has_ended for answer in mine) > 8 for mine in answers.values()), "one is not backlogged"
    bound = 2 * max(160, 2 * 8 * 180)
    gaps = service_gaps(d, answers, weights, 0)
    assert max(abs(gap) for gap in gaps) <= bound
    assert sum(len(answer.token_ids) for mine in answers.values() for answer in mine) > 3000


@pytest.mark.parametrize(("pass_us", "times"), [(0, 1), (1_000_000, 2)])
def test_the_service_gap_is_bounded_where_requests_do_not_fit(pass_us: int, times: int):
    """One tenant's prompts take nearly all of the pool, and two of them wait at any time; by twice as much with passing."""
    d = Driver(
        CoreSettings(policy="fair", max_waiting_requests=10**6, pass_blocked_us=pass_us, prefix_cache=False),
        PacedEngine(num_blocks=18),
    )
    d.start()
    long: list[Answer] = []

    def keep_waiting() -> None:
        while sum(not answer.token_times_us for answer in long) < 2:
            long.append(d.submit(tokens(250, len(long)), max_tokens=4, sampling=ENDLESS, tenant="long"))
        d.at(d.now_us + 1000, keep_waiting)

    keep_waiting()
    short = [d.submit(tokens(16, n), max_tokens=10 + n * 7 % 23, sampling=ENDLESS, tenant="short") for n in range(1000)]
    d.run(until_us=2_000_000)
    gaps = service_gaps(d, {"long": long, "short": short}, {"long": 1.0, "short": 1.0}, 0)
    assert max(abs(gap) for gap in gaps) <= times * 2 * max(250, 2 * 18 * 16)
    assert sum(len(answer.token_ids) for answer in short) > 1000


def test_a_tenant_that_paused_does_not_come_back_with_a_claim():
    """After a second of nothing it gets its share from then on, not what it left."""
    d = roomy(policy="fair", max_slots=4)
    busy = [d.submit(tokens(20, n), max_tokens=20, sampling=ENDLESS, tenant="busy") for n in range(900)]
    back = [
        d.submit(tokens(20, n), max_tokens=20, sampling=ENDLESS, tenant="back", at_us=1_000_000) for n in range(300)
    ]
    d.run(until_us=2_000_000)
    served = [
        sum(sum(at_us > 1_000_000 for at_us in answer.token_times_us) for answer in mine) for mine in (busy, back)
    ]
    assert 0.8 < served[0] / served[1] < 1.25


def test_the_least_slack_is_served_first():
    """The nearest deadline, whatever came first; a request without one waits."""
    d = driver(policy="deadline", max_slots=1)
    d.submit(tokens(10), max_tokens=5, sampling=ENDLESS)
    d.run(until_us=1500)
    left = (-1, 400_000, 100_000, 200_000)
    waiting = [d.submit(tokens(10, n), max_tokens=5, sampling=ENDLESS, time_left_us=us) for n, us in enumerate(left)]
    d.run()
    assert sorted(range(4), key=lambda number: waiting[number].ended_us) == [2, 3, 1, 0]
    assert all(is_right(answer) for answer in waiting)


def test_the_hopeless_are_refused_at_once_with_a_delay():
    """A prompt of eight steps with time for four ends in the same instant; no token of it is computed."""
    d = roomy(policy="deadline", token_budget=100)
    warm = d.submit(tokens(350), max_tokens=60, sampling=ENDLESS)
    d.run(until_us=60_000)
    hopeless = d.submit(tokens(800, 2), max_tokens=5, time_left_us=30_000)
    assert hopeless.rejected.reason is RejectReason.DEADLINE
    assert hopeless.rejected.retry_after_us > 0
    hopeful = d.submit(tokens(800, 2), max_tokens=5, sampling=ENDLESS, time_left_us=200_000)
    d.run()
    assert warm.finished
    assert hopeful.finished


def test_whoever_becomes_hopeless_in_the_queue_is_refused_then():
    """Before its deadline, when its prompt could no longer be computed in time."""
    d = driver(StrictEngine(step_us=5000), policy="deadline", max_slots=1, token_budget=32)
    d.submit(tokens(64), max_tokens=100, sampling=ENDLESS)
    d.run(until_us=50_000)
    late = d.submit(tokens(96, 2), max_tokens=5, time_left_us=100_000)
    d.run()
    assert late.rejected.reason is RejectReason.DEADLINE
    assert late.rejected.retry_after_us > 0
    assert 80_000 <= late.ended_us - late.submitted_us < 100_000


def test_nobody_is_hopeless_while_it_is_not_known_what_a_prompt_takes():
    """Steps of one token have been seen alone, 10 ms each: a prompt of 500 tokens with two seconds left is computed."""
    made = Driver(CoreSettings(policy="deadline"), PacedEngine(fixed_us=10_000))
    made.start()
    made.submit(tokens(1), max_tokens=200, sampling=ENDLESS)
    long = made.submit(tokens(500), max_tokens=2, sampling=ENDLESS, time_left_us=2_000_000, at_us=1_000_000)
    made.run()
    assert long.finished
    assert long.token_times_us[0] - long.submitted_us < 60_000


def test_whoever_has_more_time_than_it_seemed_is_not_refused():
    """Its prompt of three steps is cached by the time it would have to start; one of another prompt is refused then."""
    d = driver(StrictEngine(step_us=5000), policy="deadline", max_slots=1, token_budget=32)
    d.submit(tokens(64), max_tokens=5, sampling=ENDLESS)
    d.run(until_us=50_000)
    d.submit(tokens(96, 1), max_tokens=17, sampling=ENDLESS, time_left_us=99_000)
    d.run(until_us=51_000)
    same = d.submit(tokens(96, 1), max_tokens=1, sampling=ENDLESS, time_left_us=100_000)
    other = d.submit(tokens(96, 2), max_tokens=1, sampling=ENDLESS, time_left_us=101_000)
    d.run()
    assert is_right(same)
    assert same.ended_us <= 151_000
    assert other.rejected.reason is RejectReason.DEADLINE
    assert 85_000 <= other.ended_us - other.submitted_us <= 87_000
