"""The executor's link as a state machine: frames in, events of the log out; sockets and processes are fakes."""

from collections import deque
from itertools import count
from typing import ClassVar

import pytest

from services.executor.simulated import SimulatedExecutor
from services.runtime.zeromq import Drops
from services.scheduler import executor_link
from services.scheduler.executor_link import RESET_AGAIN_US, ExecutorLink, decode_from_executor
from services.wire import codec
from services.wire.event_log import ExecutorDown, ExecutorUp
from services.wire.execution import (
    ExecutorHeartbeat,
    ExecutorHello,
    FromExecutor,
    GrammarReady,
    Reset,
    StepPlan,
    StepResult,
    main_identity,
)
from services.wire.message import InvalidMessage

_RESET = Reset(max_slots=4, max_step_tokens=64)
_CAPACITY = SimulatedExecutor().reset(1, _RESET)
_LOST_US = 5_000_000


class FakeChannel:
    def __init__(self):
        self.frames = deque()
        self.sent = []
        self.reachable = True
        self.drops = Drops("fake")

    def receive(self):
        return self.frames.popleft() if self.frames else None

    def send(self, peer, message):
        if self.reachable:
            self.sent.append((peer, message))
        return self.reachable


class FakeProcess:
    """In the place of ProcessHandle; all that were made are kept."""

    made: ClassVar[list] = []

    def __init__(self, pid, namespace):
        self.pid, self.namespace = pid, namespace
        self.killed = self.ended = self.closed = False
        self.fd = 7
        self.made.append(self)

    def kill(self):
        self.killed = True
        return self.namespace == 1

    def has_ended(self):
        return self.ended

    def close(self):
        self.closed = True


class Bench:
    """A link, and the executors that talk to it."""

    def __init__(self):
        self.channel = FakeChannel()
        sessions = count(100)
        self.link = ExecutorLink(self.channel, _RESET, lost_timeout_us=_LOST_US, mint_session=lambda: next(sessions))
        self.at_us = 0

    def hear(self, body, session=0):
        """The events that a frame causes."""
        self.channel.frames.append((b"peer", FromExecutor(session=session, body=body)))
        return list(self.link.receive(self.at_us))

    def watch(self):
        return list(self.link.watch_over(self.at_us))

    def hello(self, instance=1, phase="ready", namespace=1):
        return self.hear(
            ExecutorHello(instance=instance, pid=50 + instance, pid_namespace=namespace, start_phase=phase)
        )

    def beat(self, instance=1, phase="ready"):
        return self.hear(ExecutorHeartbeat(instance=instance, pid=50 + instance, pid_namespace=1, start_phase=phase))

    @property
    def session(self):
        """The newest that was sent."""
        return self.channel.sent[-1][1].session

    def up(self, instance=1):
        self.hello(instance)
        events = self.hear(_CAPACITY, self.session)
        assert [type(event) for event in events] == [ExecutorUp]


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(executor_link, "ProcessHandle", FakeProcess)
    FakeProcess.made = []
    return Bench()


def test_a_hello_is_answered_by_a_reset_in_a_new_session(bench):
    """The reset goes to the main socket of that instance; its capacity brings the executor up."""
    assert bench.hello() == []
    peer, message = bench.channel.sent[-1]
    assert (peer, message.session, message.body) == (main_identity(1), 100, _RESET)
    (up,) = bench.hear(_CAPACITY, 100)
    assert up == ExecutorUp(session=100, capacity=_CAPACITY)
    assert FakeProcess.made[0].pid == 51


def test_a_heartbeat_without_a_session_is_as_good_as_a_hello(bench):
    """A scheduler that has just started finds a living executor by its heartbeat, and can watch its process."""
    assert bench.beat() == []
    assert bench.channel.sent[-1][1].body == _RESET
    assert FakeProcess.made[0].pid == 51


def test_an_executor_that_loads_is_left_alone(bench):
    """While it loads there is no reset, and no loss however long it takes."""
    bench.hello(phase="loading")
    bench.beat(phase="loading")
    bench.at_us = 10 * _LOST_US
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


@pytest.mark.parametrize("plan", [1, 3])
def test_a_result_that_is_not_due_is_a_loss(bench, plan):
    """Answering twice, or what was not asked, costs the executor its life."""
    bench.up()
    bench.link.send(StepPlan(plan=1), 0)
    bench.hear(StepResult(plan=1), session=100)
    bench.link.send(StepPlan(plan=2), 0)
    assert bench.hear(StepResult(plan=plan), session=100) == [ExecutorDown()]
    assert FakeProcess.made[0].killed


def test_a_second_capacity_is_dropped(bench):
    """A session begins once."""
    bench.up()
    assert bench.hear(_CAPACITY, session=100) == []


def test_silence_is_a_loss_and_heartbeats_are_not_silence(bench):
    """With heartbeats an executor stays; without them it is lost and killed."""
    bench.up()
    bench.at_us = _LOST_US - 1
    bench.beat()
    bench.at_us = 2 * _LOST_US - 2
    assert bench.watch() == []
    bench.at_us += 1
    assert bench.watch() == [ExecutorDown()]
    assert FakeProcess.made[0].killed
    assert FakeProcess.made[0].closed
    assert bench.watch() == []


def test_silence_is_told_from_a_sign_of_life(bench):
    """`is_silent` is true before there is an executor, false while one beats, and true some time after."""
    assert bench.link.is_silent(0, 10)
    bench.beat(phase="loading")
    assert bench.link.is_silent(0, 10)
    bench.up()
    assert not bench.link.is_silent(9, 10)
    assert bench.link.is_silent(10, 10)


def test_a_process_that_ends_is_seen_at_once(bench):
    """The end of the process is a loss in the same moment."""
    bench.up()
    assert bench.link.process_fd == 7
    FakeProcess.made[0].ended = True
    assert bench.watch() == [ExecutorDown()]
    assert bench.link.process_fd is None


def test_the_last_result_of_a_process_that_has_ended_comes_before_its_loss(bench):
    """It tells in which step the process ended: whoever was in the step that it answers is not to blame."""
    bench.up()
    bench.link.send(StepPlan(plan=1), 0)
    result = StepResult(plan=1)
    bench.channel.frames.append((b"peer", FromExecutor(session=bench.session, body=result)))
    FakeProcess.made[0].ended = True
    assert bench.watch() == [result, ExecutorDown()]


def test_frames_of_one_that_was_killed_do_not_bring_it_back(bench):
    """Heartbeats that were still on their way start no session."""
    bench.up()
    FakeProcess.made[0].ended = True
    bench.watch()
    sent = len(bench.channel.sent)
    bench.beat()
    bench.hello()
    assert len(bench.channel.sent) == sent


def test_one_that_could_not_be_killed_may_come_back(bench):
    """From another pid namespace a silent executor that wakes up gets a new session."""
    bench.hello(namespace=2)
    bench.hear(_CAPACITY, session=100)
    bench.at_us = _LOST_US
    assert bench.watch() == [ExecutorDown()]
    bench.beat()
    assert bench.session == 101


def test_an_executor_that_lost_its_session_begins_anew_and_lives(bench):
    """A hello of the running instance ends the session, kills nobody, and starts the next one."""
    bench.up()
    assert bench.hello() == [ExecutorDown()]
    assert not FakeProcess.made[0].killed
    assert bench.session == 101


@pytest.mark.parametrize("up", [True, False])
def test_another_executor_takes_no_living_ones_place(bench, up):
    """A hello of another instance, false or of a stray process, harms neither session nor process, however often it comes."""
    bench.up(instance=1) if up else bench.hello(instance=1)
    for _ in range(3):
        bench.at_us += _LOST_US // 2
        bench.beat(instance=1)
        assert bench.hello(instance=2) == []
    assert not FakeProcess.made[0].killed
    assert len(bench.channel.sent) == 1
    assert bench.channel.drops.count == 3


def test_another_executor_takes_a_dead_ones_place_at_once(bench):
    """The hello of its successor may come before the end of the process is looked at: it is met in the same moment."""
    bench.up(instance=1)
    FakeProcess.made[0].ended = True
    assert bench.hello(instance=2) == [ExecutorDown()]
    assert bench.channel.sent[-1][0] == main_identity(2)


def test_one_that_cannot_be_watched_is_dead_when_it_has_missed_its_heartbeats(bench):
    """Of a process in another pid namespace only heartbeats tell: after a second without, its successor is met."""
    bench.hello(instance=1, namespace=2)
    FakeProcess.made[0].fd = None
    bench.hear(_CAPACITY, session=100)
    bench.at_us = 900_000
    assert bench.hello(instance=2) == []
    bench.at_us = 1_000_000
    assert bench.hello(instance=2) == [ExecutorDown()]
    assert bench.channel.sent[-1][0] == main_identity(2)


def test_a_heartbeat_of_another_takes_no_ones_place(bench):
    """Only a hello does: a stray that still beats does not disturb the session."""
    bench.up(instance=1)
    assert bench.beat(instance=2) == []
    assert len(bench.channel.sent) == 1


def test_losing_one_that_never_came_up_is_no_event(bench):
    """The core hears of no loss of what it never had."""
    bench.hello()
    FakeProcess.made[0].ended = True
    assert bench.watch() == []
    assert bench.link.process_fd is None


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
