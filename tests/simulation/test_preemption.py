"""Preemption: what does not fit together is computed at most twice, and no token changes, on the virtual clock."""

import pytest

from tests.simulation.runs import ENDLESS, driver, ideal, in_both, is_right, tokens
from tests.simulation.strict_engine import StrictEngine


@in_both
def test_two_prompts_that_do_not_fit_together_are_computed_at_most_twice(batching: str):
    """Two prompts of 0.7 pool each: total computed tokens are at most twice the ideal."""
    engine = StrictEngine(num_blocks=20)
    d = driver(engine, batching=batching)
    answers = [d.submit(tokens(224, seed), max_tokens=60, seed=seed, sampling=ENDLESS) for seed in range(2)]
    d.run()
    assert all(is_right(answer) for answer in answers)
    assert engine.num_computed <= 2 * ideal(answers)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("prefix_cache", [False, True])
def test_two_that_grow_until_they_do_not_fit_together_are_computed_at_most_twice(prefix_cache: bool, depth: int):
    """Small prompts that grow to 0.7 pool each run side by side until one gives way; it comes back once."""
    engine = StrictEngine(num_blocks=20)
    d = driver(engine, prefix_cache=prefix_cache, pipeline_depth=depth)
    answers = [d.submit(tokens(20, seed), max_tokens=204, seed=seed, sampling=ENDLESS) for seed in range(2)]
    d.run()
    assert max(record.decode_tokens for record in d.records) == 2, "they never competed"
    assert sum(record.preempted for record in d.records) == 1
    assert answers[0].finished.bill.recomputed_tokens == 0
    assert prefix_cache or answers[1].finished.bill.recomputed_tokens > 0
    assert all(is_right(answer) for answer in answers)
    assert engine.num_computed <= 2 * ideal(answers)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("prefix_cache", [False, True])
@pytest.mark.parametrize("num_blocks", [12, 20, 31])
def test_sequences_that_outgrow_the_pool_are_computed_at_most_twice(num_blocks: int, prefix_cache: bool, depth: int):
    """Many that grow from a tenth of the pool to more than a half: preempted, never back and forth."""
    engine = StrictEngine(num_blocks=num_blocks)
    d = driver(engine, prefix_cache=prefix_cache, pipeline_depth=depth)
    growth = num_blocks * 16 // 2
    answers = [d.submit(tokens(20, seed), max_tokens=growth, seed=seed, sampling=ENDLESS) for seed in range(8)]
    d.run()
    assert sum(record.preempted for record in d.records) > 0
    assert all(is_right(answer) for answer in answers)
    assert engine.num_computed <= 2 * ideal(answers)


@in_both
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("step", range(2, 16))
def test_a_preemption_at_any_step_changes_no_token(step: int, depth: int, batching: str):
    """Preempted just before any of its steps, in prefill or decode, a sequence gets the same tokens."""
    d = driver(token_budget=16, pipeline_depth=depth, batching=batching)
    answers = [d.submit(tokens(40, seed), max_tokens=9, seed=seed, sampling=ENDLESS) for seed in range(3)]
    for answer in answers:
        d.before_step(step, lambda answer=answer: d.preempt(answer))
    d.run()
    assert all(is_right(answer) for answer in answers)


def test_the_newest_gives_way():
    """When blocks run out, the most recently admitted sequence is preempted and the oldest runs on."""
    d = driver(StrictEngine(num_blocks=12), prefix_cache=False)
    answers = [d.submit(tokens(16, seed), max_tokens=130, seed=seed, sampling=ENDLESS) for seed in range(3)]
    d.run()
    assert answers[0].finished.bill.recomputed_tokens == 0
    assert answers[2].finished.bill.recomputed_tokens > 0
    assert [answer.ended_us for answer in answers] == sorted(answer.ended_us for answer in answers)


@pytest.mark.parametrize("policy", ["priority", "fair", "deadline"])
@pytest.mark.parametrize("num_blocks", [12, 20])
def test_under_any_policy_sequences_are_computed_at_most_twice(num_blocks: int, policy: str):
    """Whoever the policy makes give way, nobody does it twice."""
    engine = StrictEngine(num_blocks=num_blocks)
    d = driver(engine, prefix_cache=False, policy=policy)
    growth = num_blocks * 16 // 2
    answers = [
        d.submit(
            tokens(20, seed), max_tokens=growth, seed=seed, sampling=ENDLESS, tenant="abc"[seed % 3], priority=-seed
        )
        for seed in range(8)
    ]
    d.run()
    assert sum(record.preempted for record in d.records) > 0
    assert all(is_right(answer) for answer in answers)
    assert engine.num_computed <= 2 * ideal(answers)


def test_the_lowest_priority_gives_way():
    """Not the newest: the oldest is recomputed if it is the lowest."""
    d = driver(StrictEngine(num_blocks=12), prefix_cache=False, policy="priority")
    answers = [
        d.submit(tokens(16, seed), max_tokens=130, seed=seed, sampling=ENDLESS, priority=3 - seed) for seed in range(3)
    ]
    d.run()
    assert answers[0].finished.bill.recomputed_tokens > 0
    assert answers[2].finished.bill.recomputed_tokens == 0
    assert all(is_right(answer) for answer in answers)
