"""Pace: nobody starves beside a long prompt, in a tiny budget or in a full one, on the virtual clock."""

from itertools import pairwise

import pytest

from services.scheduler.answers import Answer
from tests.simulation.paced_engine import PacedEngine
from tests.simulation.runs import ENDLESS, driver, in_both, is_right, tokens
from tests.simulation.strict_engine import StrictEngine


@pytest.mark.parametrize("depth", [1, 2])
def test_a_stream_keeps_its_pace_beside_a_long_prompt(depth: int):
    """One stream that decodes beside a 4,000-token prompt at a budget of 256 never waits longer than 3 steps."""
    d = driver(StrictEngine(num_blocks=400, context_length=8192), token_budget=256, pipeline_depth=depth)
    stream = d.submit(tokens(20), max_tokens=60, sampling=ENDLESS)
    d.submit(tokens(4000), max_tokens=5, sampling=ENDLESS, at_us=5_500)
    d.run()
    assert max(b - a for a, b in pairwise(stream.token_steps)) <= 3
    assert is_right(stream)


@in_both
@pytest.mark.parametrize("budget", [1, 7, 15])
def test_budgets_below_the_batch_serve_everyone_in_turn(budget: int, batching: str):
    """24 sequences at a tiny budget all finish, and none that decodes waits much longer than a round of all."""
    d = driver(token_budget=budget, prefix_cache=False, batching=batching)
    answers = [d.submit(tokens(5, seed), max_tokens=30, seed=seed, sampling=ENDLESS) for seed in range(24)]
    d.run()
    assert all(is_right(answer) for answer in answers)
    round_steps = -(-25 // budget)
    assert max(b - a for answer in answers for a, b in pairwise(answer.token_steps)) <= round_steps + 1
    assert all(record.decode_tokens + record.prefill_tokens <= budget for record in d.records)


def test_a_newcomer_is_prefilled_while_decodes_fill_the_budget():
    """At a budget that the decodes use up, a newcomer still gets its first token long before they end."""
    d = driver(token_budget=4)
    old = [d.submit(tokens(4, seed), max_tokens=400, sampling=ENDLESS) for seed in range(4)]
    new = d.submit(tokens(20, 9), max_tokens=5, sampling=ENDLESS, at_us=30_000)
    d.run()
    assert new.ended_us < min(answer.ended_us for answer in old) / 2


def test_a_long_prompt_delays_a_short_one_by_its_own_steps_only():
    """A short prompt behind a long one starts as soon as the long one's last chunk leaves room."""
    d = driver(token_budget=64)
    long, short = d.submit(tokens(640), max_tokens=50, sampling=ENDLESS), d.submit(tokens(8, 2), max_tokens=3)
    d.run()
    assert short.token_steps[0] <= long.token_steps[0] + 1


@pytest.mark.parametrize("depth", [1, 2])
def test_steps_stay_under_the_target(depth: int):
    """Once it has seen a prompt, no step beside decodes is predicted to pass 15 ms, and none does by 2 %; all of the budget takes 30."""
    d = driver(PacedEngine(), token_budget=512, tbt_target_us=15_000, pipeline_depth=depth)
    first = d.submit(tokens(300), max_tokens=30, sampling=ENDLESS)
    d.submit(tokens(300, 2), max_tokens=20, sampling=ENDLESS, at_us=40_000)
    streams = [
        d.submit(tokens(50, seed), max_tokens=400, sampling=ENDLESS, at_us=150_000 + seed) for seed in range(10, 20)
    ]
    prompts = [d.submit(tokens(1500, seed), max_tokens=2, at_us=200_000 + 120_000 * seed) for seed in range(8)]
    d.run()
    warm = [record for record in d.records if record.at_us > 200_000]
    assert max(record.predicted_us for record in warm if record.tbt_target_us) <= 15_000
    assert max(record.prediction_error_us for record in warm) <= 200
    assert worst_gap_us(streams) <= 15_300
    assert sum(record.prefill_tokens > 100 for record in warm) > 20, "prompts were computed in crumbs"
    assert all(answer.finished for answer in (first, *streams, *prompts))


def test_a_target_that_cannot_be_met_starves_no_prompt():
    """Decodes alone take longer than 1 ms: a prompt of 320 tokens gets a block with each step, and no more."""
    d = driver(PacedEngine(), tbt_target_us=1000)
    stream = d.submit(tokens(20), max_tokens=200, sampling=ENDLESS)
    prompt = d.submit(tokens(320, 2), max_tokens=2, sampling=ENDLESS, at_us=50_000)
    d.run()
    chunks = [record.prefill_tokens for record in d.records if record.tbt_target_us and record.prefill_tokens]
    assert chunks == [16] * 20
    assert prompt.ended_us < stream.ended_us


def worst_gap_us(answers: list[Answer]) -> int:
    return max(answer.max_gap_us for answer in answers)
