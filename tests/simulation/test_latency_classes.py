"""Latency classes: who is promised what, and gets it, on the virtual clock."""

from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from tests.simulation.paced_engine import PacedEngine
from tests.simulation.runs import ENDLESS, driver, tokens


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
