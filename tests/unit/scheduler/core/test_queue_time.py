import numpy as np

from services.scheduler.core.flight import Flight
from services.scheduler.core.latency_class import LatencyClass
from services.scheduler.core.policies.fair import Fair
from services.scheduler.core.policies.policy import Policy
from services.scheduler.core.policies.priority import Priority
from services.scheduler.core.progress import Progress
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.queue_time import MAX_RETRY_US, MIN_RETRY_US, QueueTime
from services.scheduler.core.quota import Quotas
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from tests.unit.scheduler.core.helpers import capacity, sequence


class Counter:
    """Two slots and, unless told otherwise, a budget of 100 tokens and steps that all take 1 ms."""

    def __init__(self, *sizes: int, step_us: int = 1000, token_budget: int = 100, policy: Policy | None = None) -> None:
        settings = CoreSettings(token_budget=token_budget, max_slots=2)
        progress = Progress(settings)
        nobody = np.empty(0, np.intp)
        for size in sizes or (50, 100):
            flight = Flight(1, 1, 0, 0, size, nobody, nobody, np.empty(0, np.int32), ())
            progress.step_ended(flight, size, step_us, at_us=0)
        self.session = Session(1, capacity(), settings, Quotas())
        self.queue = WaitingQueue(max_requests=99, max_tokens=10**6, policy=policy)
        self.time = QueueTime(self.queue, progress)

    def run(self, serial: int, max_tokens: int, *, is_spare: bool = False) -> None:
        one = sequence(serial, prompt=10, max_tokens=max_tokens)
        one.latency_class = LatencyClass("c", is_spare=is_spare)
        self.session.occupy(one, [], 0)

    def wait(self, serial: int, prompt: int, *, is_spare: bool = False, ttft_us: int = 0, **fields) -> None:
        one = sequence(serial, prompt=prompt, **fields)
        one.latency_class = LatencyClass("c", ttft_us, is_spare=is_spare)
        self.queue.join(one)

    def predict_us(self, *, ttft_us: int = 0, **fields) -> int:
        newcomer = sequence(99, **fields)
        newcomer.latency_class = LatencyClass("c", ttft_us)
        return self.time.predict_us(self.session, newcomer)


def test_with_a_free_slot_only_the_prompts_count():
    """250 tokens at 100 a step are three steps of 1 ms; the same where there is no session."""
    counter = Counter()
    assert counter.predict_us() == 0
    counter.wait(1, 250)
    assert counter.predict_us() == counter.time.predict_us(None, sequence(99)) == 3000


def test_behind_full_slots_as_many_have_to_end_as_are_before():
    """The next takes the slot that is free in 20 steps, the one behind it that in 50."""
    counter = Counter()
    counter.run(1, 20)
    counter.run(2, 50)
    assert counter.predict_us() == 20_000
    counter.wait(3, 100)
    assert counter.predict_us() == 50_000 + 1000
    counter.wait(4, 100)
    assert counter.predict_us() == 70_000 + 20_000 + 2000, "those before it have to end too"


def test_spare_work_is_in_nobodys_way():
    """Neither what waits nor what runs of it."""
    counter = Counter()
    counter.run(1, 20)
    counter.run(2, 50)
    counter.wait(3, 100, is_spare=True)
    assert counter.predict_us() == 20_000
    spare = Counter()
    spare.run(1, 20)
    spare.run(2, 50, is_spare=True)
    assert spare.predict_us() == 0


def test_what_has_been_waited_for_corrects_the_model():
    """Where answers stop at half of their limits, predictions come down to half; and up again."""
    counter = Counter()
    counter.run(1, 100)
    counter.run(2, 100)
    for _ in range(100):
        predicted_us = counter.predict_us()
        counter.time.waited(predicted_us, 50_000)
    assert 48_000 <= predicted_us <= 52_000
    for _ in range(100):
        counter.time.waited(counter.predict_us(), 200_000)
    assert 190_000 <= counter.predict_us() <= 200_000
    counter.time.waited(0, 10**9)
    assert counter.predict_us() <= 200_000


def test_a_retry_delay_is_bounded():
    """Neither at once nor in an hour."""
    counter = Counter(step_us=100_000_000)
    assert counter.time.retry_after_us(None) == MIN_RETRY_US
    counter.wait(1, 1900)
    assert counter.time.retry_after_us(None) == MAX_RETRY_US


def test_decodes_alone_inflate_no_retry_delay():
    """After twenty decodes of 50 ms a prompt of the whole budget is not taken to need as much for each token."""
    counter = Counter(*[1] * 20, step_us=50_000, token_budget=512)
    counter.wait(1, 512)
    assert counter.time.retry_after_us(None) <= 1_000_000


def test_what_a_newcomer_passes_is_not_before_it():
    """Documents are not before a chat, and it is before none of a higher priority."""
    counter = Counter(policy=Priority(1_000_000))
    counter.run(1, 20)
    counter.run(2, 50)
    for serial in range(3, 9):
        counter.wait(serial, 1000, ttft_us=5_000_000)
    assert counter.predict_us(ttft_us=500_000) == 20_000
    assert counter.predict_us(ttft_us=500_000, priority=10) == 3 * 70_000 + 20_000 + 60_000
    counter.wait(9, 100, ttft_us=500_000)
    assert counter.predict_us(ttft_us=500_000) == 50_000 + 1000
    assert counter.predict_us(ttft_us=500_000, priority=-1) == 20_000


def test_where_tenants_take_turns_one_of_each_other_is_before_it():
    """Behind ten of one tenant, two of another, and three of its own, of which it passes a document."""
    counter = Counter(policy=Fair())
    counter.run(1, 20)
    counter.run(2, 50)
    for serial in range(3, 13):
        counter.wait(serial, 100, tenant="busy")
    assert counter.predict_us(tenant="own") == 50_000 + 1000
    for serial in range(13, 15):
        counter.wait(serial, 100, tenant="other")
    assert counter.predict_us(tenant="own") == 70_000 + 20_000 + 2000
    for serial, ttft_us in ((15, 500_000), (16, 500_000), (17, 5_000_000)):
        counter.wait(serial, 100, tenant="own", ttft_us=ttft_us)
    assert counter.predict_us(tenant="own", ttft_us=500_000) == 2 * 70_000 + 20_000 + 4000


def test_nothing_is_predicted_before_steps_of_several_sizes_have_ended():
    """After decodes alone it is not known how long a prompt takes."""
    counter = Counter(*[1] * 20, step_us=50_000)
    counter.run(1, 20)
    counter.run(2, 50)
    counter.wait(3, 250)
    assert counter.predict_us() == 0


def test_while_the_first_needs_blocks_a_free_slot_helps_nobody():
    """The newcomer waits for two ends where one slot is free; one that passes the first, for none."""
    counter = Counter()
    counter.run(1, 20)
    counter.wait(3, 100)
    assert counter.predict_us() == 20_000 + 1000
    counter.queue.head.blocked_us = 0
    assert counter.predict_us() == 40_000 + 20_000 + 1000
    assert counter.predict_us(ttft_us=100_000) == 0


def test_answers_that_stop_early_shorten_the_wait():
    """Where they stop at a tenth of what they may draw, those that run are taken to have a tenth of it left."""
    counter = Counter()
    counter.run(1, 1000)
    counter.run(2, 2000)
    assert counter.predict_us() == 1_000_000
    for _ in range(200):
        counter.time.ended(50, 500)
    counter.time.ended(0, 0)
    assert 99_000 <= counter.predict_us() <= 110_000
    for _ in range(200):
        counter.time.ended(500, 500)
    assert 980_000 <= counter.predict_us() <= 1_000_000
