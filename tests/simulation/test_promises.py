"""Promised bounds, each on the virtual clock with the strict engine."""

import random
from itertools import pairwise

import pytest

from services.scheduler.driver import Answer, Driver
from services.wire.event_log import Drain
from services.wire.scheduling import RejectReason
from tests.simulation.runs import ENDLESS, driver, ideal, is_right, tokens
from tests.simulation.strict_engine import FAILING, POISON, StrictEngine

in_both = pytest.mark.parametrize("batching", ["continuous", "static"])


# ---- nobody starves


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


# ---- preemption


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


# ---- prefix cache


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


# ---- poison


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
@pytest.mark.parametrize("seed", range(3))
def test_random_losses_quarantine_nobody(seed: int, batching: str):
    """200 losses at any moment, about 30 steps apart: nobody is suspected enough to run alone, all tokens are right."""
    d, answers = driver(max_slots=8, batching=batching), list[Answer]()
    assert lose_at_random(d, answers, random.Random(seed), mean_steps=30) == 0
    assert all(is_right(answer) for answer in answers)


@in_both
@pytest.mark.parametrize("seed", range(3))
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


# ---- deadlines, quotas, queues, drain


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
