"""Executors that come and go under the core, and what becomes of those who run or wait."""

from services.scheduler.core.core import Core
from services.scheduler.core.settings import CoreSettings
from services.wire.event_log import ExecutorDown, ExecutorUp, LogEvent, SessionOpened, Tick
from services.wire.scheduling import Rejected, RejectReason, SchedulerHello
from tests.unit.scheduler.core.helpers import Bench, capacity


def test_a_lost_executors_sequences_go_on_with_all_their_tokens():
    """In the order of their admission, before those that waited."""
    bench = Bench(max_slots=2)
    for handle in (1, 2, 3):
        bench.submit(handle, prompt=5, max_tokens=9)
    bench.step([0, 1])
    bench.step([0, 1])
    bench.tell(ExecutorDown())
    assert bench.plan() is None
    bench.tell(ExecutorUp(session=2, capacity=capacity()))
    plan = bench.plan()
    assert plan.plan == 1
    assert [len(admitted.token_ids) for admitted in plan.admitted] == [7, 7]
    assert [admitted.token_ids[0] for admitted in plan.admitted] == [7, 14]
    assert plan.released.tolist() == []


def test_an_executor_that_comes_while_another_is_there_replaces_it():
    """As if that had been lost first."""
    bench = Bench()
    bench.submit(max_tokens=9)
    bench.step([0])
    bench.tell(ExecutorUp(session=2, capacity=capacity()))
    assert len(bench.plan().admitted[0].token_ids) == 21


def test_waiting_requests_end_when_the_grace_is_over():
    """Counted from the submit or from the loss, whichever is later."""
    bench = Bench(up=False, executor_grace_us=1000)
    bench.submit(1)
    assert bench.core.next_deadline_us() == 1000
    bench.at_us = 999
    bench.tell(Tick())
    assert bench.said() == []
    bench.at_us = 1000
    bench.tell(Tick())
    word = bench.last_word()
    assert (word.reason, word.retry_after_us > 0) == (RejectReason.EXECUTOR_UNAVAILABLE, True)
    bench.tell(ExecutorUp(session=1, capacity=capacity()))
    bench.submit(2, max_tokens=50)
    bench.step([0])
    bench.tell(ExecutorDown())
    bench.said()
    assert bench.core.next_deadline_us() == 2000 + 1000
    bench.at_us = 3000
    bench.tell(Tick())
    assert bench.last_word().reason is RejectReason.EXECUTOR_UNAVAILABLE


def test_an_executor_in_time_ends_the_grace():
    """Nothing happens at its old end."""
    bench = Bench(up=False, executor_grace_us=1000)
    bench.submit(1)
    bench.tell(ExecutorUp(session=1, capacity=capacity()))
    assert bench.core.next_deadline_us() is None
    bench.at_us = 5000
    bench.tell(Tick())
    assert not [body for body in bench.said() if isinstance(body, Rejected)]


def test_nothing_goes_on_under_another_model():
    """Token ids were made for the old one's tokenizer."""
    bench = Bench()
    bench.submit(max_tokens=9)
    bench.step([0])
    bench.tell(ExecutorDown())
    bench.tell(ExecutorUp(session=2, capacity=capacity(fingerprint="other")))
    assert bench.last_word().reason is RejectReason.MODEL_CHANGED


def test_never_fits_is_decided_again_for_a_smaller_pool():
    """And what still fits goes on."""
    bench = Bench()
    bench.submit(1, prompt=[1] * 40, max_tokens=100)
    bench.submit(2, prompt=[1] * 40, max_tokens=10)
    bench.tell(ExecutorUp(session=2, capacity=capacity(num_blocks=4)))
    word = bench.last_word()
    assert (word.handle, word.reason) == (1, RejectReason.NEVER_FITS)
    assert len(bench.plan().admitted) == 1


def test_routers_hear_of_a_new_executor():
    """Each gets the hello that a router which attaches now would get."""
    core = Core(CoreSettings())
    core.handle(LogEvent(at_us=0, body=SessionOpened(router=1)))
    assert core.hello() == SchedulerHello()
    core.handle(LogEvent(at_us=0, body=ExecutorUp(session=1, capacity=capacity(num_blocks=10))))
    ((router, message),) = core.take_outputs()
    assert (router, message.body) == (1, core.hello())
    assert (message.body.executor_ready, message.body.pool_tokens, message.body.max_request_tokens) == (True, 160, 161)
