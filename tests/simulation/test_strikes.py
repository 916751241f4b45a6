"""Strikes: who causes losses is convicted, and who merely runs then is not, on the virtual clock."""

import random

import pytest

from services.scheduler.answers import Answer
from services.scheduler.driver import Driver
from services.wire.scheduling import RejectReason
from tests.simulation.runs import ENDLESS, driver, in_both, is_right, tokens
from tests.simulation.strict_engine import POISON

SEEDS = [0, pytest.param(1, marks=pytest.mark.deep), pytest.param(2, marks=pytest.mark.deep)]


@in_both
def test_a_poisonous_request_ends_after_three_losses_and_its_neighbours_finish(batching: str):
    """It ends INTERNAL with three strikes; every neighbour has every token right."""
    d = driver(batching=batching)
    neighbours = [d.submit(tokens(20, seed), max_tokens=30, seed=seed, sampling=ENDLESS) for seed in range(6)]
    poison = d.submit([POISON, *tokens(9)], max_tokens=30, sampling=ENDLESS)
    more = [d.submit(tokens(20, 50 + seed), max_tokens=30, sampling=ENDLESS, at_us=1_500_000) for seed in range(3)]
    d.run()
    assert poison.rejected.reason is RejectReason.POISONOUS
    assert poison.rejected.attempt == 3
    assert d.num_sessions == 4
    assert all(is_right(answer) for answer in (*neighbours, *more))


@in_both
def test_two_poisonous_requests_are_both_convicted(batching: str):
    """Each is found, and neither drags the other's neighbours down."""
    d = driver(token_budget=16, batching=batching)
    poisons = [d.submit([POISON, *tokens(9, seed)], max_tokens=30, sampling=ENDLESS) for seed in range(2)]
    neighbours = [d.submit(tokens(20, seed), max_tokens=30, seed=seed, sampling=ENDLESS) for seed in range(6)]
    d.run()
    assert all(answer.rejected.reason is RejectReason.POISONOUS for answer in poisons)
    assert all(is_right(answer) for answer in neighbours)


def lose_at_random(d: Driver, answers: list[Answer], rng: random.Random, *, mean_steps: int) -> int:
    """200 losses, each a random number of steps after the recovery; how many left somebody in quarantine."""
    num_quarantines = 0
    for _ in range(200):
        if len(answers) < 10 or all(answer.ended_us >= 0 for answer in answers[-8:]):
            answers += [d.submit(tokens(30, seed), max_tokens=200, seed=seed, sampling=ENDLESS) for seed in range(8)]
        d.run(until_us=d.now_us + 1 + int(rng.expovariate(1 / (mean_steps * 1000))))
        d.lose_executor()
        num_quarantines += any(sequence.is_quarantined for sequence in d.core._lifecycle.registry)
        d.run(until_us=d.now_us + 1_000_000)
        d.executor_up()
    d.run()
    return num_quarantines


@in_both
@pytest.mark.parametrize("seed", SEEDS)
def test_random_losses_quarantine_nobody(seed: int, batching: str):
    """200 losses at any moment, about 30 steps apart: nobody is suspected enough to run alone, all tokens are right."""
    d, answers = driver(max_slots=8, batching=batching), list[Answer]()
    assert lose_at_random(d, answers, random.Random(seed), mean_steps=30) == 0
    assert all(is_right(answer) for answer in answers)


@in_both
@pytest.mark.parametrize("seed", SEEDS)
def test_losses_after_a_few_steps_convict_no_innocent(seed: int, batching: str):
    """200 losses at any moment, about 10 steps apart: every answer ends with its tokens."""
    d, answers = driver(max_slots=8, batching=batching), list[Answer]()
    lose_at_random(d, answers, random.Random(seed), mean_steps=10)
    assert all(is_right(answer) for answer in answers)


@in_both
@pytest.mark.parametrize("seed", range(3))
def test_a_poisonous_request_is_convicted_where_executors_are_lost_at_random(seed: int, batching: str):
    """It takes more losses than three, and no more than seven under it; no innocent is convicted."""
    rng = random.Random(seed)
    d = driver(max_slots=8, batching=batching)
    innocents = [d.submit(tokens(30, n), max_tokens=500, seed=n, sampling=ENDLESS) for n in range(5)]
    for _ in range(10):
        d.run(until_us=d.now_us + rng.randrange(10, 40) * 1000)
        d.lose_executor()
        d.executor_up()
    poison, before = d.submit([POISON, *tokens(9)], max_tokens=30, sampling=ENDLESS), d.num_sessions
    d.run()
    assert poison.rejected.reason is RejectReason.POISONOUS
    assert 3 < d.num_sessions - before <= 7
    assert all(is_right(answer) for answer in innocents)


def test_a_quarantined_request_runs_alone_until_it_grows():
    """With two strikes it computes in steps of its own while others pause, then all run together."""
    d = driver()
    others = [d.submit(tokens(20, seed), max_tokens=30, seed=seed, sampling=ENDLESS) for seed in range(3)]
    suspect = d.submit(tokens(12, 9), max_tokens=20, sampling=ENDLESS, attempt=2, at_us=5_500)
    d.run()
    alone = d.records[suspect.token_steps[0] - 1]
    assert (alone.decode_tokens, alone.prefill_tokens) == (0, 12)
    assert d.records[suspect.token_steps[1] - 1].decode_tokens == 4
    assert all(is_right(answer) for answer in (*others, suspect))


@pytest.mark.parametrize("depth", [1, 2])
def test_a_loss_under_a_quarantined_request_strikes_nobody_else(depth: int):
    """No plan of others is unanswered while it runs alone, whatever the depth of the pipeline."""
    d = driver(pipeline_depth=depth)
    others = [d.submit(tokens(20, seed), max_tokens=30, seed=seed, sampling=ENDLESS) for seed in range(3)]
    suspect = d.submit(tokens(12, 9), max_tokens=20, sampling=ENDLESS, attempt=2, at_us=5_500)
    while not d.records or d.records[-1].prefill_tokens != 12:
        d.run(until_us=d.now_us + 500)
    d.lose_executor()
    assert suspect.rejected.reason is RejectReason.POISONOUS
    assert all(sequence.strikes == 0 for sequence in d.core._lifecycle.registry)
    d.executor_up()
    d.run()
    assert all(is_right(answer) for answer in others)
