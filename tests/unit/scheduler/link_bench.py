"""A link whose socket and processes are fakes: frames in, events of the log out."""

from collections import deque
from itertools import count
from typing import ClassVar

from services.executor.simulated import SimulatedExecutor
from services.runtime.zeromq import Drops
from services.scheduler import executor_link
from services.scheduler.executor_link import ExecutorLink
from services.wire.event_log import ExecutorUp
from services.wire.execution import ExecutorHeartbeat, ExecutorHello, FromExecutor, Reset

RESET = Reset(max_slots=4, max_step_tokens=64)
CAPACITY = SimulatedExecutor().reset(1, RESET)
LOST_US = 5_000_000


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
        self.link = ExecutorLink(self.channel, RESET, lost_timeout_us=LOST_US, mint_session=lambda: next(sessions))
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
        events = self.hear(CAPACITY, self.session)
        assert [type(event) for event in events] == [ExecutorUp]


def link_bench(monkeypatch):
    """One whose processes are fakes for as long as the test runs."""
    monkeypatch.setattr(executor_link, "ProcessHandle", FakeProcess)
    FakeProcess.made = []
    return Bench()
