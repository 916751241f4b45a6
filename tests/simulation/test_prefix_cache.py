"""The prefix cache: what is found again, and what must not be, on the virtual clock."""

import pytest

from tests.simulation.runs import ENDLESS, driver, in_both, is_right, tokens
from tests.simulation.strict_engine import FAILING, StrictEngine


@pytest.mark.parametrize("budget", [16, 64, 256, 512])
@pytest.mark.parametrize("tail", [1, 16, 23])
def test_a_cold_burst_computes_its_common_prefix_once(budget: int, tail: int):
    """64 requests with one 512-token prefix at once: at most 512 + 64 x (tail + 16) prompt tokens are computed."""
    engine = StrictEngine(num_blocks=600)
    d = driver(engine, token_budget=budget)
    prefix = tokens(512)
    answers = [d.submit(prefix + tokens(tail, seed), max_tokens=3, seed=seed, sampling=ENDLESS) for seed in range(64)]
    d.run()
    assert all(is_right(answer) for answer in answers)
    computed = sum(answer.finished.bill.computed_prompt_tokens for answer in answers)
    assert computed <= 512 + 64 * (tail + 16)
    assert engine.num_computed == computed + 64 * 2


@pytest.mark.parametrize("length", [15, 16, 17, 32])
def test_a_repeated_prompt_computes_only_its_last_block(length: int):
    """The second time all full blocks are hits but for the last known token's."""
    d = driver()
    answers = [d.submit(tokens(length), max_tokens=20, sampling=ENDLESS, at_us=at) for at in (0, 1_000_000)]
    d.run()
    assert answers[0].token_ids == answers[1].token_ids
    assert answers[1].finished.bill.cached_tokens == (length - 1) // 16 * 16


def test_a_conversation_hits_what_was_generated():
    """The next turn finds the blocks of the previous answer."""
    d = driver()
    first = d.submit(tokens(30), max_tokens=40, sampling=ENDLESS)
    d.run()
    second = d.submit([*tokens(30), *first.token_ids, 5, 6], max_tokens=4, sampling=ENDLESS)
    d.run()
    assert second.finished.bill.cached_tokens == 64
    assert is_right(second)


def test_tenants_do_not_find_each_others_blocks():
    """The same prompt under another chain root is computed again."""
    d = driver()
    answers = [d.submit(tokens(64), max_tokens=2, tenant=tenant) for tenant in ("a", "b", "a")]
    d.run()
    assert [answer.finished.bill.cached_tokens for answer in answers] == [0, 0, 48]


@in_both
def test_a_new_executor_session_starts_with_an_empty_cache(batching: str):
    """After a loss nothing is taken from blocks that are gone."""
    d = driver(batching=batching)
    d.submit(tokens(64), max_tokens=2)
    d.run()
    d.executor_up()
    again = d.submit(tokens(64), max_tokens=2)
    d.run()
    assert again.finished.bill.cached_tokens == 0


def test_blocks_of_a_failed_sequence_are_not_found():
    """What a sequence with logits that are not finite left behind is not used for another."""
    d = driver()
    prompt = [FAILING, *tokens(63)]
    d.submit(prompt, max_tokens=10, sampling=ENDLESS)
    d.run()
    again = d.submit(prompt, max_tokens=2, sampling=ENDLESS)
    d.run()
    assert again.finished.bill.cached_tokens == 0
