"""Pace: nobody starves beside a long prompt, in a tiny budget or in a full one, on the virtual clock."""

from itertools import pairwise

import pytest

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
