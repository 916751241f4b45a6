"""Right tokens: whatever happens around a sequence, its tokens are those that transformers gives, or a lone run does.

In every run each prompt is served twice at once, greedy and at temperature 0.8 with a seed, on an engine whose free KV
blocks are full of NaN, under a core that checks its books after each step.
"""

import random

import numpy as np
import pytest

from services.wire.execution import Sampling
from tests.support.right_tokens import MAX_TOKENS, WAYS, RightTokens

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

ALL = range(24)
BUDGETS = [1, 7, 15, 16, 17, 512]
QUICKEST = "cpu quantized"
# Prefill takes 3 steps at a budget of 512 and each answer MAX_TOKENS - 1 more; preempted ones a few more.
STEPS = 18


SLOW = pytest.param("reference", marks=pytest.mark.deep)


@pytest.fixture(scope="session", params=[SLOW, *(way for way in WAYS if way != "reference")])
def right(request, loaded_default_model, default_model, pytestconfig):
    """The model in one way to compute it, its prompts and the right answers."""
    return RightTokens(loaded_default_model, default_model, pytestconfig.cache, request.param)


@pytest.fixture
def sample(right):
    """Five prompts (two on the slow reference), others for another seed of the run; short ones: trouble can be had often."""
    short = [index for index in ALL if len(right.prompts[index]) < 70]
    return random.sample(short, 2 if right.way == "reference" else 5)


def sized_groups(right, indices, size):
    """Groups of prompts of about equal length."""
    by_length = sorted(indices, key=lambda index: len(right.prompts[index]))
    return [by_length[start : start + size] for start in range(0, len(by_length), size)]


def serve_two_at_a_time(right, indices):
    """Serves prompts in a pool that holds just two of the longest."""
    longest = max(right.blocks_for(index) for index in indices)
    right.check(right.serve(indices, num_blocks=2 * longest))


def serve_twice(right, indices):
    """Serves prompts, then the same ones again on the warm prefix cache."""
    driver = right.driver()
    for _ in range(2):
        answers = right.submit(driver, indices)
        before = len(driver.records)
        driver.run()
        right.check(answers)
    hits = sum(record.prefix_hit_tokens for record in driver.records[before:])
    # Every full block but the one with the last token is found again, for both answers.
    assert hits == 2 * sum((len(right.prompts[index]) - 1) // 16 * 16 for index in indices)


def preempt_each_at(steps, preempted):
    """Plans that the answers to prompt i are preempted just before plan number steps[i]; counts those that ran then."""

    def prepare(driver, answers):
        for index, pair in answers.items():
            for answer in pair:
                driver.before_step(steps[index], lambda answer=answer: preempted.append(driver.preempt(answer)))

    return prepare


@pytest.mark.deep
@pytest.mark.parametrize("index", ALL)
def test_alone(right, index):
    """A prompt served alone gets transformers' tokens, and its seeded answer is the same a second time."""
    right.check(right.serve([index]))


@pytest.mark.deep
@pytest.mark.parametrize("token_budget", BUDGETS)
def test_all_at_once(right, token_budget):
    """All 24 at once, at every token budget per step."""
    right.check(right.serve(ALL, token_budget=token_budget))


@pytest.mark.deep
@pytest.mark.parametrize("token_budget", [16, 512])
def test_all_at_once_with_two_plans_in_flight(right, token_budget):
    """All 24 at once, the next plan made before the last result is back."""
    right.check(right.serve(ALL, token_budget=token_budget, pipeline_depth=2))


@pytest.mark.deep
def test_all_at_once_without_a_prefix_cache(right):
    """All 24 at once, each computing its own prompt."""
    right.check(right.serve(ALL, prefix_cache=False))


@pytest.mark.deep
def test_all_sent_twice(right):
    """The second time every full block is found in the prefix cache."""
    serve_twice(right, ALL)


@pytest.mark.deep
@pytest.mark.parametrize("group", range(3))
def test_all_in_a_pool_that_holds_two(right, group):
    """Answers wait for blocks, and are preempted for want of them."""
    serve_two_at_a_time(right, sized_groups(right, ALL, 8)[group])


@pytest.mark.deep
@pytest.mark.parametrize("offset", range(STEPS))
def test_all_preempted_at_every_step(right, offset):
    """Over the offsets each of the 24 is sent back before every step that there is (on the slow reference each third)."""
    if right.way == "reference" and offset % 3:
        pytest.skip("the reference is slow")
    steps = {index: (index + offset) % STEPS + 1 for index in ALL}
    preempted = []
    right.check(right.serve(ALL, preempt_each_at(steps, preempted), prefix_cache=offset % 2 == 0))
    # Of 48 answers, those whose step comes before they run or after they end are spared.
    assert sum(preempted) >= 24


@pytest.mark.parametrize("token_budget", [7, pytest.param(16, marks=pytest.mark.deep), 512])
def test_some_at_once(right, sample, token_budget):
    """A sample of the prompts at once, at several token budgets."""
    right.check(right.serve(sample, token_budget=token_budget))


def test_some_sent_twice(right, sample):
    """A sample of the prompts on a warm prefix cache."""
    serve_twice(right, sample)


def test_some_in_a_pool_that_holds_two(right, sample):
    """A sample of the prompts in a pool that holds two."""
    serve_two_at_a_time(right, sample)


def test_some_preempted_at_some_steps(right, sample):
    """A sample of the prompts, each preempted at a step of its own."""
    preempted = []
    steps = {index: random.randrange(2, MAX_TOKENS - 2) for index in sample}
    right.check(right.serve(sample, preempt_each_at(steps, preempted), prefix_cache=False))
    assert any(preempted)


def test_one_preempted_before_each_of_its_steps(right, sample):
    """A sequence that is sent back to the queue after every single token is still the same sequence."""
    preempted = []

    def prepare(driver, answers):
        for step in range(2, 2 * MAX_TOKENS):
            for answer in answers[sample[0]]:
                driver.before_step(step, lambda answer=answer: preempted.append(driver.preempt(answer)))

    right.check(right.serve(sample[:1], prepare, prefix_cache=False))
    assert sum(preempted) >= 4


def logprobs_of(answer, kind):
    """{position: logprob} of an answer's rows."""
    rows = [getattr(batch, kind) for batch in answer.batches if getattr(batch, kind)]
    handle = answer.submit.handle
    return {
        position: chosen
        for row in rows
        for slot, position, chosen in zip(row.slots.tolist(), row.positions.tolist(), row.chosen.tolist(), strict=True)
        if slot == handle
    }


def test_logprobs_are_within_a_ten_thousandth_of_transformers(right, sample):
    """Of every prompt token but the first, and of every token drawn; rounded weights have logprobs of their own."""
    if not right.is_exact:
        pytest.skip("the weights are rounded")
    driver = right.driver(token_budget=23)
    wanted = Sampling(temperature=0.0, logprobs=2, prompt_logprobs=0)
    answers = {index: driver.submit(right.prompts[index], sampling=wanted, max_tokens=MAX_TOKENS) for index in sample}
    driver.run()
    for index, answer in answers.items():
        expected, length = right.expected(index), len(right.prompts[index])
        drawn, of_prompt = logprobs_of(answer, "logprobs"), logprobs_of(answer, "prompt_logprobs")
        assert sorted(drawn) == list(range(length, length + len(expected.tokens)))
        assert sorted(of_prompt) == list(range(1, length))
        by_position = [of_prompt[position] for position in range(1, length)]
        by_position += [drawn[position] for position in sorted(drawn)]
        np.testing.assert_allclose(by_position, expected.prompt_logprobs + expected.logprobs, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "right", [pytest.param(way, marks=() if way == QUICKEST else pytest.mark.deep) for way in WAYS], indirect=True
)
def test_a_cold_burst_computes_its_common_prefix_once(right):
    """64 requests at once with one prefix of 512 tokens: it is computed once, and each tail by its own request."""
    rng = np.random.default_rng(5)
    prefix = rng.integers(100, 40_000, 512).tolist()
    tails = [rng.integers(100, 40_000, 8).tolist() for _ in range(64)]

    def first_tokens(driver, requests):
        answers = [driver.submit(prefix + tail, max_tokens=1) for tail in requests]
        driver.run()
        return [answer.token_ids for answer in answers]

    driver = right.driver()
    together = first_tokens(driver, tails)
    assert sum(record.prefill_tokens for record in driver.records) <= 512 + 64 * (8 + 16)
    assert together[-1:] == first_tokens(right.driver(), tails[-1:])
