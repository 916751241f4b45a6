"""The executor's link as a state machine: how a session begins, and what passes in it."""

import pytest

from services.scheduler.executor_link import RESET_AGAIN_US, decode_from_executor
from services.wire import codec
from services.wire.event_log import ExecutorUp
from services.wire.execution import ExecutorHeartbeat, FromExecutor, GrammarReady, StepPlan, StepResult, main_identity
from services.wire.message import InvalidMessage
from tests.unit.scheduler.link_bench import CAPACITY, LOST_US, RESET, FakeProcess, link_bench


@pytest.fixture
def bench(monkeypatch):
    return link_bench(monkeypatch)


def test_a_hello_is_answered_by_a_reset_in_a_new_session(bench):
    """The reset goes to the main socket of that instance; its capacity brings the executor up."""
    assert bench.hello() == []
    peer, message = bench.channel.sent[-1]
    assert (peer, message.session, message.body) == (main_identity(1), 100, RESET)
    (up,) = bench.hear(CAPACITY, 100)
    assert up == ExecutorUp(session=100, capacity=CAPACITY)
    assert FakeProcess.made[0].pid == 51


def test_a_heartbeat_without_a_session_is_as_good_as_a_hello(bench):
    """A scheduler that has just started finds a living executor by its heartbeat, and can watch its process."""
    assert bench.beat() == []
    assert bench.channel.sent[-1][1].body == RESET
    assert FakeProcess.made[0].pid == 51


def test_an_executor_that_loads_is_left_alone(bench):
    """While it loads there is no reset, and no loss however long it takes."""
    bench.hello(phase="loading")
    bench.beat(phase="loading")
    bench.at_us = 10 * LOST_US
    assert bench.watch() == []
    assert bench.channel.sent == []


def test_an_executor_that_cannot_be_reached_yet_is_met_at_its_next_word(bench):
    """When the main socket is not connected yet, the next heartbeat tries again."""
    bench.channel.reachable = False
    bench.beat()
    bench.channel.reachable = True
    bench.beat()
    assert len(bench.channel.sent) == 1


def test_a_reset_is_repeated_for_an_executor_that_still_says_hello(bench):
    """A hello that crossed the reset changes nothing; one that comes much later gets the same session again."""
    bench.hello()
    bench.hello()
    assert len(bench.channel.sent) == 1
    bench.at_us = RESET_AGAIN_US
    bench.hello()
    assert [message.session for _, message in bench.channel.sent] == [100, 100]


def test_results_are_passed_on_in_order_and_in_session(bench):
    """The result of the plan that is due comes out; frames of another session are dropped and counted."""
    bench.up()
    assert bench.link.send(StepPlan(plan=1), 0)
    assert bench.hear(StepResult(plan=1), session=99) == []
    assert bench.channel.drops.count == 1
    assert bench.hear(StepResult(plan=1), session=100) == [StepResult(plan=1)]
    assert bench.hear(GrammarReady(slot=0), session=100) == [GrammarReady(slot=0)]


def test_a_second_capacity_is_dropped(bench):
    """A session begins once."""
    bench.up()
    assert bench.hear(CAPACITY, session=100) == []


def test_silence_is_told_from_a_sign_of_life(bench):
    """`is_silent` is true before there is an executor, false while one beats, and true some time after."""
    assert bench.link.is_silent(0, 10)
    bench.beat(phase="loading")
    assert bench.link.is_silent(0, 10)
    bench.up()
    assert not bench.link.is_silent(9, 10)
    assert bench.link.is_silent(10, 10)


def test_without_an_executor_nothing_is_sent(bench):
    """Plans are for a session."""
    assert bench.link.send(StepPlan(plan=1), 0) is False
    bench.hello()
    assert bench.link.send(StepPlan(plan=1), 0) is False


def test_another_protocol_is_refused_in_words():
    """The reason names both versions."""
    frame = FromExecutor(protocol=8, session=0, body=ExecutorHeartbeat(instance=1))
    with pytest.raises(InvalidMessage, match="protocol 8"):
        decode_from_executor(codec.encode(frame))
