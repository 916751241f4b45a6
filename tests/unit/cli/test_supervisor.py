"""The supervisor over children that are scripted, on a real inbox of signals."""

import signal
import threading

from services.cli.children import Child
from services.cli.supervisor import Supervisor
from services.runtime.lifecycle import ExitCode


class ScriptedChild(Child):
    """A child without a process: `exits` are the statuses with which each of its lives ends at once, then it lives on."""

    __slots__ = ("exits", "log", "starts", "status")

    def __init__(self, name, log, exits=()):
        super().__init__(name, (), {})
        self.log, self.exits, self.starts, self.status = log, list(exits), 0, None

    def start(self, now_s):
        self.starts += 1
        self.started_s, self.start_again_s = now_s, None
        self.status = self.exits.pop(0) if self.exits else None
        self.process = FakeProcess(self)

    def send(self, number):
        if self.process is not None and self.status is None:
            self.log.append((self.name, number.name))
            self.status = -number if number == signal.SIGKILL else 0

    @property
    def running(self):
        return self.process is not None and self.status is None


class FakeProcess:
    def __init__(self, child):
        self.child = child

    def poll(self):
        return self.child.status

    def wait(self, _timeout_s):
        return self.child.status


class Inbox:
    """Gives one batch of signals a tick."""

    def __init__(self, *batches):
        self.batches = list(batches)

    def wait(self, _timeout_s):
        threading.Event().wait(0.01)
        return self.batches.pop(0) if self.batches else {signal.SIGTERM}


def supervise(children, *batches, ready=lambda: True):
    said, events = [], []
    supervisor = Supervisor(children, ready=ready, report=said.append)
    code = supervisor.run(Inbox(*batches), lambda: events.append("ready"))
    return code, said, events


def test_children_are_told_to_end_in_order():
    """SIGTERM goes to each child after the one before it has ended; the exit code is 0."""
    log = []
    children = [ScriptedChild(name, log) for name in ("router", "scheduler", "executor")]
    code, _, events = supervise(children, set(), set())
    assert code == ExitCode.OK
    assert log == [(name, "SIGTERM") for name in ("router", "scheduler", "executor")]
    assert events == ["ready"]


def test_a_child_that_dies_is_started_again_at_once():
    """The first death of a child costs it nothing but its restart."""
    children = [ScriptedChild("executor", [], exits=[-signal.SIGKILL])]
    code, said, _ = supervise(children, set(), set())
    assert code == ExitCode.OK
    assert children[0].starts == 2
    assert "the executor ended (signal SIGKILL); starting it again" in said


def test_a_bad_setting_ends_the_first_start_with_2():
    """What an operator must mend is not retried, and nothing is left running."""
    log = []
    children = [ScriptedChild("router", log), ScriptedChild("executor", log, exits=[ExitCode.BAD_SETTING])]
    code, said, _ = supervise(children, set(), set(), ready=lambda: False)
    assert code == ExitCode.BAD_SETTING
    assert "the executor cannot start with these settings" in said[-1]
    assert log == [("router", "SIGKILL")]


def test_a_first_start_that_keeps_failing_is_given_up():
    """A child that dies thrice before the server was ever ready ends it with a code that is not 0."""
    children = [ScriptedChild("executor", [], exits=[70] * 9)]
    code, said, events = supervise(children, *[set()] * 100, ready=lambda: False)
    assert code == ExitCode.BROKEN
    assert said[-1].startswith("the executor ended 3 times before it was ready")
    assert events == []


def test_a_second_signal_ends_all_at_once():
    """While a child drains, a second SIGTERM kills what is left."""
    log = []

    class Stubborn(ScriptedChild):
        def send(self, number):
            if number == signal.SIGTERM:
                self.log.append((self.name, number.name))
            else:
                super().send(number)

    children = [Stubborn("router", log), ScriptedChild("executor", log)]
    code, _, _ = supervise(children, set(), {signal.SIGTERM}, set(), {signal.SIGINT})
    assert code == ExitCode.FORCED
    assert log == [("router", "SIGTERM"), ("router", "SIGKILL"), ("executor", "SIGKILL")]


def test_an_executor_that_dies_during_the_drain_is_started_again():
    """Answers that are still being given need it."""
    log = []
    executor = ScriptedChild("executor", log)

    class Draining(ScriptedChild):
        def send(self, number):
            self.log.append((self.name, number.name))
            executor.status = -signal.SIGKILL
            threading.Timer(0.3, lambda: setattr(self, "status", 0)).start()

    class Patient(Inbox):
        def wait(self, timeout_s):
            if not self.batches:
                self.batches.append(set())
            return super().wait(timeout_s)

    said = []
    supervisor = Supervisor([Draining("router", log), executor], ready=lambda: True, report=said.append)
    assert supervisor.run(Patient(set(), {signal.SIGTERM}), lambda: None) == ExitCode.OK
    assert executor.starts == 2


def test_a_server_that_stops_serving_is_told():
    """Readiness that falls and comes back is said, once each."""
    answers = iter([True, False, False, True])
    last = [True]

    def ready():
        last[0] = next(answers, last[0])
        return last[0]

    class Slow(Inbox):
        def wait(self, _timeout_s):
            threading.Event().wait(0.26)
            return super().wait(_timeout_s)

    said = []
    supervisor = Supervisor([ScriptedChild("router", [])], ready=ready, report=said.append)
    assert supervisor.run(Slow(*[set()] * 5), lambda: None) == ExitCode.OK
    assert said[:2] == ["not ready", "ready again"]


def test_a_signal_that_comes_twice_at_once_is_one_request():
    """What `timeout` sends to its child and to its group drains; the same signal later ends at once."""

    class Endless(ScriptedChild):
        def send(self, number):
            if number == signal.SIGKILL:
                super().send(number)

    class Slow(ScriptedChild):
        def send(self, number):
            if number == signal.SIGTERM:
                threading.Timer(0.2, lambda: setattr(self, "status", 0)).start()

    class Quiet(Inbox):
        def wait(self, timeout_s):
            self.batches = self.batches or [set()]
            return super().wait(timeout_s)

    def end(child, *batches):
        supervisor = Supervisor([child], ready=lambda: True, report=lambda _words: None)
        return supervisor.run(Quiet(*batches), lambda: None)

    assert end(Slow("router", []), {signal.SIGTERM}, {signal.SIGTERM}) == ExitCode.OK
    assert end(Endless("router", []), {signal.SIGTERM}, *[set()] * 60, {signal.SIGTERM}) == ExitCode.FORCED


def test_an_answer_that_is_late_is_not_said(monkeypatch):
    """A probe without an answer says nothing, until there was none for long; the next answer says that it is over."""
    monkeypatch.setattr("services.cli.supervisor._PROBE_INTERVAL_S", 0.0)
    answers = [True, None, None, True]
    assert _said_over(answers) == []
    monkeypatch.setattr("services.cli.supervisor._SILENCE_S", 0.0)
    assert _said_over(answers) == ["the server has not answered for 0 s", "ready again"]


def _said_over(answers):
    answers, said = iter(answers), []
    supervisor = Supervisor([ScriptedChild("router", [])], ready=lambda: next(answers, True), report=said.append)
    assert supervisor.run(Inbox(*[set()] * 4), lambda: None) == ExitCode.OK
    return said[:-1]  # the last words are of the end
