"""The executor's link as a state machine: when an executor is lost, and who takes its place."""

import pytest

from services.wire.event_log import ExecutorDown
from services.wire.execution import FromExecutor, StepPlan, StepResult, main_identity
from tests.unit.scheduler.link_bench import CAPACITY, LOST_US, FakeProcess, link_bench


@pytest.fixture
def bench(monkeypatch):
    return link_bench(monkeypatch)


@pytest.mark.parametrize("plan", [1, 3])
def test_a_result_that_is_not_due_is_a_loss(bench, plan):
    """Answering twice, or what was not asked, costs the executor its life."""
    bench.up()
    bench.link.send(StepPlan(plan=1), 0)
    bench.hear(StepResult(plan=1), session=100)
    bench.link.send(StepPlan(plan=2), 0)
    assert bench.hear(StepResult(plan=plan), session=100) == [ExecutorDown()]
    assert FakeProcess.made[0].killed


def test_silence_is_a_loss_and_heartbeats_are_not_silence(bench):
    """With heartbeats an executor stays; without them it is lost and killed."""
    bench.up()
    bench.at_us = LOST_US - 1
    bench.beat()
    bench.at_us = 2 * LOST_US - 2
    assert bench.watch() == []
    bench.at_us += 1
    assert bench.watch() == [ExecutorDown()]
    assert FakeProcess.made[0].killed
    assert FakeProcess.made[0].closed
    assert bench.watch() == []


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
    bench.hear(CAPACITY, session=100)
    bench.at_us = LOST_US
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
        bench.at_us += LOST_US // 2
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
    bench.hear(CAPACITY, session=100)
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
