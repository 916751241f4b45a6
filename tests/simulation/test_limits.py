"""Limits: deadlines, full queues, quotas and a drain end, refuse or hold back whom they should, on the virtual clock."""

import random

from services.scheduler.answers import Answer
from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from services.wire.event_log import Drain
from services.wire.scheduling import RejectReason, StepRecord
from tests.simulation.paced_engine import PacedEngine
from tests.simulation.runs import ENDLESS, driver, in_both, is_right, tokens


@in_both
def test_a_passed_deadline_ends_a_request_and_nothing_of_it_is_computed_after(batching: str):
    """A running one and a waiting one end at their deadlines."""
    d = driver(max_slots=1, batching=batching)
    running = d.submit(tokens(10), max_tokens=100, sampling=ENDLESS, time_left_us=20_500)
    waiting = d.submit(tokens(10, 2), max_tokens=100, sampling=ENDLESS, time_left_us=10_500)
    last = d.submit(tokens(10, 3), max_tokens=5, sampling=ENDLESS)
    d.run()
    assert (running.rejected.reason, running.ended_us) == (RejectReason.DEADLINE, 20_500)
    assert (waiting.rejected.reason, waiting.ended_us) == (RejectReason.DEADLINE, 10_500)
    assert max(running.token_times_us) <= 20_500
    assert not waiting.token_ids
    assert is_right(last)


@in_both
def test_a_full_queue_refuses_at_once_with_a_delay(batching: str):
    """Requests over the bound are refused with a retry delay; a resubmitted one passes it."""
    d = driver(max_slots=1, max_waiting_requests=2, batching=batching)
    answers = [d.submit(tokens(10, n), max_tokens=5, sampling=ENDLESS) for n in range(5)]
    again = d.submit(tokens(10, 9), max_tokens=5, sampling=ENDLESS, resubmitted=True)
    refused = [answer for answer in answers if answer.rejected]
    assert [answer.rejected.reason for answer in refused] == [RejectReason.QUEUE_FULL] * 3
    assert all(answer.rejected.retry_after_us > 0 for answer in refused)
    d.run()
    assert is_right(again)
    assert sum(is_right(answer) for answer in answers) == 2


def test_a_queue_is_bounded_in_tokens():
    """The second long prompt is refused, a short one fits; an empty queue takes any."""
    d = driver(max_waiting_tokens=100)
    long = [d.submit(tokens(90, n), max_tokens=5, sampling=ENDLESS) for n in range(2)]
    short = d.submit(tokens(10), max_tokens=5, sampling=ENDLESS)
    assert long[1].rejected.reason is RejectReason.QUEUE_FULL
    d.run()
    huge = d.submit(tokens(300), max_tokens=5, sampling=ENDLESS)
    d.run()
    assert all(is_right(answer) for answer in (long[0], short, huge))


@in_both
def test_a_tenant_at_its_block_quota_waits_and_others_pass(batching: str):
    """Its second request starts when its first ends; another tenant's starts at once."""
    d = driver(batching=batching)
    mine = [d.submit(tokens(20, n), max_tokens=30, sampling=ENDLESS, tenant="a", tenant_max_blocks=4) for n in range(2)]
    other = d.submit(tokens(20, 7), max_tokens=5, sampling=ENDLESS, tenant="b")
    d.run()
    assert other.token_steps[0] == 1
    assert mine[1].token_times_us[0] > mine[0].ended_us
    assert all(is_right(answer) for answer in (*mine, other))


def test_quotas_refuse_what_they_can_never_allow():
    """More live requests than the quota, or one larger than the quota of blocks, are refused."""
    d = driver()
    first = d.submit(tokens(20), max_tokens=5, tenant="a", tenant_max_requests=1)
    second = d.submit(tokens(20), max_tokens=5, tenant="a", tenant_max_requests=1)
    large = d.submit(tokens(20), max_tokens=50, tenant="b", tenant_max_blocks=2)
    assert first.rejected is None
    assert second.rejected.reason is RejectReason.QUOTA
    assert second.rejected.retry_after_us > 0
    assert (large.rejected.reason, large.rejected.retry_after_us) == (RejectReason.QUOTA, -1)


@in_both
def test_a_drain_refuses_newcomers_and_lets_the_living_finish(batching: str):
    """Live and resubmitted requests finish, new ones are refused."""
    d = driver(batching=batching)
    old = d.submit(tokens(20), max_tokens=30, sampling=ENDLESS)
    d.tell(Drain())
    new = d.submit(tokens(20, 2), max_tokens=5)
    back = d.submit(tokens(20, 3), max_tokens=5, sampling=ENDLESS, resubmitted=True)
    assert new.rejected.reason is RejectReason.DRAINING
    assert d.core.load(0).draining
    d.run()
    assert is_right(old)
    assert is_right(back)
    assert d.core.is_idle


def overload(*, times: int) -> tuple[int, list[Answer], list[StepRecord]]:
    """60 virtual seconds of random chats at 55 a second, which is nearly all that can be served, or `times` as many.

    Returns how many were given what the class promises, within that time.
    """
    until_us, rng, at_us, answers = 60_000_000, random.Random(1), 0.0, []
    d = Driver(CoreSettings(max_slots=32, max_waiting_requests=200), PacedEngine())
    d.start()
    prompts = [tokens(60 + 5 * n, n) for n in range(48)]
    while at_us < until_us:
        at_us += rng.expovariate(55 * times / 1e6)
        chat = {"sampling": ENDLESS, "latency_class": "chat", "at_us": int(at_us)}
        answers.append(d.submit(rng.choice(prompts), max_tokens=rng.randrange(20, 120), **chat))
    d.run(until_us=until_us)
    return sum(is_good(answer) for answer in answers), answers, d.records


def is_good(answer: Answer) -> bool:
    """Whether its first token came within 500 ms, and the others within 50 ms each."""
    moments = answer.token_times_us
    if not answer.finished:
        return False
    return moments[0] - answer.submitted_us <= 500_000 and moments[-1] - moments[0] <= 50_000 * (len(moments) - 1)


def test_ten_times_the_load_costs_no_goodput():
    """As many are served in time as at once the load; the queue stays short; refusals come at once, with a delay."""
    at_once, _, _ = overload(times=1)
    good, answers, records = overload(times=10)
    assert at_once > 3000
    assert good >= at_once
    assert max(record.waiting for record in records) <= 200
    refused = [answer for answer in answers if answer.rejected]
    assert len(refused) > 20_000
    assert all(answer.ended_us == answer.submitted_us for answer in refused)
    assert all(answer.rejected.retry_after_us > 0 for answer in refused)
