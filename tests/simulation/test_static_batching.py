"""What static batching costs and what it does not: on the virtual clock, with the strict engine."""

from itertools import pairwise

import pytest

from services.scheduler.answers import Answer
from services.scheduler.driver import Driver
from services.wire.scheduling import RejectReason, StepRecord
from tests.simulation.runs import ENDLESS, driver, is_right, tokens
from tests.simulation.strict_engine import POISON, StrictEngine


def idle_slot_steps(records: list[StepRecord]) -> int:
    """Slot-steps that were held and computed nothing."""
    return sum(record.held_slots - record.useful_slots for record in records)


def one_short_and_one_long(batching: str) -> tuple[Driver, list[Answer]]:
    d = driver(batching=batching, pipeline_depth=1)
    answers = [d.submit(tokens(30, n), max_tokens=n, seed=n, sampling=ENDLESS) for n in (20, 400)]
    d.run()
    return d, answers


def test_a_short_answer_beside_a_long_one_holds_its_slot_idle_in_a_static_batch():
    """20 tokens beside 400: 380 steps of one slot compute nothing, of 800 that are held."""
    d, answers = one_short_and_one_long("static")
    assert len(d.records) == 400
    assert sum(record.held_slots for record in d.records) == 800
    assert idle_slot_steps(d.records) == 380
    assert all(is_right(answer) for answer in answers)


def test_no_slot_is_held_idle_in_continuous_batching():
    """The same two: each slot-step that is held computes a token."""
    d, answers = one_short_and_one_long("continuous")
    assert len(d.records) == 400
    assert sum(record.held_slots for record in d.records) == 420
    assert idle_slot_steps(d.records) == 0
    assert all(is_right(answer) for answer in answers)


@pytest.mark.parametrize("depth", [1, 2])
def test_nobody_joins_before_the_last_member_has_ended(depth: int):
    """Twelve requests, four slots: three batches, none of which begins before the one before it has ended."""
    d = driver(max_slots=4, batching="static", pipeline_depth=depth)
    answers = [d.submit(tokens(10 + n, n), max_tokens=5 + 7 * (n % 4), seed=n, sampling=ENDLESS) for n in range(12)]
    d.run()
    batches = [answers[first : first + 4] for first in (0, 4, 8)]
    for before, after in pairwise(batches):
        assert min(answer.token_times_us[0] for answer in after) > max(answer.ended_us for answer in before)
    assert all(is_right(answer) for answer in answers)


def test_one_that_arrives_beside_a_batch_waits_for_its_end():
    """It would have a slot of its own: that is what continuous batching is for."""
    d = driver(max_slots=4, batching="static")
    first = d.submit(tokens(10), max_tokens=50, sampling=ENDLESS)
    late = d.submit(tokens(10, 2), max_tokens=5, sampling=ENDLESS, at_us=5_500)
    d.run()
    assert late.token_times_us[0] > first.ended_us


def test_the_tokens_do_not_depend_on_the_batching():
    """Whoever is computed beside whom, the answers are the same."""
    got = []
    for batching in ("static", "continuous"):
        d = driver(max_slots=3, batching=batching)
        answers = [d.submit(tokens(25, n), max_tokens=9 + 5 * n, seed=n, sampling=ENDLESS) for n in range(8)]
        d.run()
        got.append([answer.token_ids for answer in answers])
    assert got[0] == got[1]


def test_a_batch_takes_no_more_than_the_pool_holds_at_the_limits():
    """No member of a static batch ever gives way: answers that would outgrow the pool together are not begun together."""
    d = driver(StrictEngine(num_blocks=20), batching="static")
    answers = [d.submit(tokens(20, n), max_tokens=100, seed=n, sampling=ENDLESS) for n in range(8)]
    d.run()
    assert max(record.running for record in d.records) == 2  # of 8 blocks each
    assert sum(record.preempted for record in d.records) == 0
    assert all(is_right(answer) for answer in answers)


def test_a_cancelled_member_holds_nobody_up():
    """The batch goes on without it, and the next one begins when the others have ended."""
    d = driver(max_slots=2, batching="static")
    endless = d.submit(tokens(10), max_tokens=1000, sampling=ENDLESS)
    short = d.submit(tokens(10, 2), max_tokens=20, sampling=ENDLESS)
    following = d.submit(tokens(10, 3), max_tokens=5, sampling=ENDLESS)
    d.cancel(endless, at_us=30_500)
    d.run()
    assert short.ended_us < 30_500
    assert following.ended_us <= 40_000
    assert is_right(short)
    assert is_right(following)


def test_a_member_past_its_deadline_holds_nobody_up():
    """It ends at its deadline, running or chosen and not begun, and the next batch follows."""
    d = driver(max_slots=2, batching="static")
    endless = d.submit(tokens(10), max_tokens=1000, sampling=ENDLESS, time_left_us=20_500)
    following = [d.submit(tokens(10, n), max_tokens=5, sampling=ENDLESS) for n in range(2, 5)]
    d.run()
    assert (endless.rejected.reason, endless.ended_us) == (RejectReason.DEADLINE, 20_500)
    assert all(answer.ended_us <= 35_000 for answer in following)
    assert all(is_right(answer) for answer in following)


def test_a_poisonous_member_is_convicted_and_the_others_of_its_batch_finish():
    """Each loss ends the batch; what is left of it is the first of the next."""
    d = driver(max_slots=4, batching="static")
    poison = d.submit([POISON, *tokens(9)], max_tokens=30, sampling=ENDLESS)
    others = [d.submit(tokens(20, n), max_tokens=30, seed=n, sampling=ENDLESS) for n in range(6)]
    d.run()
    assert poison.rejected.reason is RejectReason.POISONOUS
    assert d.num_sessions == 4
    assert all(is_right(answer) for answer in others)


def test_a_cold_burst_computes_its_common_prefix_once_in_static_batches_too():
    """The baseline has the same prefix cache."""
    engine = StrictEngine(num_blocks=600)
    d = driver(engine, batching="static")
    answers = [d.submit(tokens(512) + tokens(23, n), max_tokens=3, seed=n, sampling=ENDLESS) for n in range(64)]
    d.run()
    assert all(is_right(answer) for answer in answers)
    assert sum(answer.finished.bill.computed_prompt_tokens for answer in answers) <= 512 + 64 * (23 + 16)
