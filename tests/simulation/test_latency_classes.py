"""Latency classes: who is promised what, and gets it, on the virtual clock."""

import random
from itertools import pairwise

import pytest

from services.scheduler.answers import Answer
from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from tests.simulation.paced_engine import PacedEngine
from tests.simulation.runs import ENDLESS, driver, is_right, tokens


def roomy(**settings: int | str) -> Driver:
    """A driver whose engine has all the blocks that are wanted, and whose queue takes all."""
    made = Driver(CoreSettings(max_waiting_requests=10**6, max_waiting_tokens=10**9, **settings), PacedEngine())
    made.start()
    return made


def test_a_chat_goes_before_documents_that_came_first():
    """Its first token is due sooner: only the prompt that is being computed is finished before it."""
    d = roomy(token_budget=256, max_slots=4)
    documents = [d.submit(tokens(1000, n), max_tokens=5, latency_class="document") for n in range(8)]
    chat = d.submit(tokens(50), max_tokens=5, sampling=ENDLESS, latency_class="chat", at_us=1000)
    d.run()
    assert sum(answer.token_times_us[0] < chat.token_times_us[0] for answer in documents) <= 1


def test_the_step_budget_keeps_the_shortest_promise_in_the_step():
    """Beside a chat no step is predicted to pass 50 ms; beside documents alone steps take up to 100."""
    d = roomy(token_budget=4096)
    for n in range(2):
        d.submit(tokens(2000, n), max_tokens=3, sampling=ENDLESS, at_us=n * 250_000)
    chat = d.submit(tokens(50, 7), max_tokens=60, sampling=ENDLESS, latency_class="chat", at_us=600_000)
    d.submit(tokens(50, 8), max_tokens=110, sampling=ENDLESS, latency_class="document", at_us=600_000)
    for n in range(10, 60):
        d.submit(tokens(2000, n), max_tokens=2, at_us=620_000)
    d.run()
    records = [record for record in d.records if record.at_us > 620_000 and record.prefill_tokens]
    targets = {record.tbt_target_us for record in records}
    assert targets >= {50_000, 100_000}
    assert all(record.predicted_us <= record.tbt_target_us for record in records if record.tbt_target_us)
    assert max(record.predicted_us for record in records) > 60_000
    assert chat.max_gap_us <= 51_000


def test_attainment_is_counted_in_the_records():
    """Each that ends is counted once, by class, with the targets that it met."""
    d = driver(max_slots=1)
    answers = [d.submit(tokens(10, n), max_tokens=300, sampling=ENDLESS, latency_class="chat") for n in range(3)]
    d.submit(tokens(10, 5), max_tokens=2, sampling=ENDLESS, latency_class="batch")
    d.run()
    d.submit(tokens(10), max_tokens=1, sampling=ENDLESS)
    d.run()
    counts = [each for record in d.records for each in record.classes]
    assert {each.name for each in counts} == {"chat"}
    assert sum(each.ended for each in counts) == len(answers)
    assert sum(each.ttft_met for each in counts) == 2, "the third waited for 600 ms"
    assert sum(each.tbt_met for each in counts) == 3


def chats(d: Driver, *, per_s: int, until_us: int) -> list[Answer]:
    """Random arrivals of random lengths; the same each time."""
    rng, at_us, answers = random.Random(1), 0.0, []
    while at_us < until_us:
        at_us += rng.expovariate(per_s / 1e6)
        prompt = tokens(rng.randrange(50, 300), len(answers))
        answers.append(
            d.submit(
                prompt, max_tokens=rng.randrange(20, 120), sampling=ENDLESS, latency_class="chat", at_us=int(at_us)
            )
        )
    return answers


def p99_us(values: list[int]) -> int:
    return sorted(values)[len(values) * 99 // 100]


@pytest.mark.parametrize("per_s", [10, 50])
def test_full_batch_load_worsens_chats_by_at_most_a_tenth(per_s: int):
    """p99 of TTFT and TBT, with as many long batch requests waiting as the queue takes; in the end those finish too."""
    ttft_us, tbt_us = [], []
    for num_batch in (0, 1100):
        d = Driver(CoreSettings(max_slots=32), PacedEngine())
        d.start()
        batch = [
            d.submit(tokens(600, n), max_tokens=60, latency_class="batch") for n in range(10**4, 10**4 + num_batch)
        ]
        batch = [answer for answer in batch if not answer.rejected]
        assert len(batch) == min(num_batch, d.settings.max_waiting_requests)
        answers = chats(d, per_s=per_s, until_us=8_000_000)
        d.run(until_us=8_000_000)
        begun = [answer for answer in answers if answer.token_times_us]
        ttft_us.append(p99_us([answer.token_times_us[0] - answer.submitted_us for answer in begun]))
        tbt_us.append(p99_us([b - a for answer in begun for a, b in pairwise(answer.token_times_us)]))
        assert sum(len(answer.token_ids) for answer in batch) >= min(num_batch, 300), "batch work stood still"
        assert num_batch == 0 or not all(answer.has_ended for answer in batch)
        d.run()
        assert all(answer.finished for answer in (*answers, *batch))
    assert ttft_us[1] <= 1.1 * ttft_us[0]
    assert tbt_us[1] <= 1.1 * tbt_us[0]


def test_batch_work_has_the_whole_server_when_nothing_else_comes():
    """Its prompts fill the budget, and it has all the slots."""
    d = roomy(max_slots=8, token_budget=512)
    batch = [d.submit(tokens(600, n), max_tokens=30, sampling=ENDLESS, latency_class="batch") for n in range(16)]
    d.run()
    assert max(record.prefill_tokens for record in d.records) > 400
    assert max(record.running for record in d.records) == 8
    assert all(answer.finished for answer in batch)


def test_batch_work_gives_its_slots_to_a_chat_at_once():
    """Though it holds all of them; what gave way finishes all the same, with the same tokens."""
    d = driver(max_slots=4, pipeline_depth=1)
    batch = [d.submit(tokens(40, n), max_tokens=50, sampling=ENDLESS, latency_class="batch") for n in range(4)]
    d.run(until_us=20_000)
    assert sum(record.preempted for record in d.records) == 0
    late = d.submit(tokens(20, 8), max_tokens=10, sampling=ENDLESS, latency_class="chat")
    d.run()
    assert late.token_times_us[0] - late.submitted_us <= 2000
    assert sum(record.preempted for record in d.records) == 1
    assert all(is_right(answer) for answer in (*batch, late))


@pytest.mark.parametrize("policy", ["fcfs", "fair"])
def test_a_chat_is_not_refused_for_what_it_would_pass(policy: str):
    """Documents of other tenants that would take more than a second: it is let in, and has its first token in time."""
    d = roomy(policy=policy, max_slots=8)
    for number in range(40):
        d.submit(tokens(2000, number), max_tokens=4, latency_class="document", tenant="other", at_us=number * 1000)
    chat = d.submit(tokens(50), max_tokens=5, sampling=ENDLESS, latency_class="chat", tenant="own", at_us=700_000)
    d.run()
    assert chat.finished
    assert chat.token_times_us[0] - chat.submitted_us <= 500_000
