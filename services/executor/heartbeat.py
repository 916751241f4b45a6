"""The executor's heartbeat: a thread of its own that says that the process lives and how long its step has run.

It is also the self-watchdog: a step far beyond its limit means that the main thread will not come back, and that no
scheduler has killed the process (it may be in another pid namespace).
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from services.runtime.lifecycle import ExitCode
from services.runtime.logging import get_logger
from services.runtime.zeromq import ClientChannel
from services.wire.execution import ExecutorHeartbeat, FromExecutor, ToExecutor

StartPhase = Literal["loading", "warming_up", "ready"]
ExecutorChannel = ClientChannel[FromExecutor, ToExecutor]

HEARTBEAT_INTERVAL_S = 0.25
WATCHDOG_GRACE_MS = 5000  # the scheduler's own verdict comes first

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    """The step that the main thread is in; plan 0 is none."""

    plan: int = 0
    since_s: float = 0.0
    time_limit_ms: int = 0


class Pulse:
    """What the main thread tells the heartbeat: two references, replaced whole, so that no lock is needed."""

    __slots__ = ("phase", "running", "session")

    def __init__(self) -> None:
        self.phase: StartPhase = "loading"
        self.running = Running()
        self.session = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process this is, for the scheduler."""

    instance: int
    pid: int
    pid_namespace: int


class Heart(threading.Thread):
    """Beats until stopped. `open_channel` is called in this thread: a socket belongs to the thread that made it."""

    def __init__(
        self,
        pulse: Pulse,
        identity: Identity,
        open_channel: Callable[[], ExecutorChannel],
        *,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._pulse = pulse
        self._identity = identity
        self._open_channel = open_channel
        self._end = end
        self._stopped = threading.Event()

    def run(self) -> None:
        channel = self._open_channel()
        try:
            while not self._stopped.wait(HEARTBEAT_INTERVAL_S):
                channel.send(self.beat(time.monotonic()))
        finally:
            channel.close()

    def beat(self, now_s: float) -> FromExecutor:
        """The heartbeat of this moment; ends the process when its step will not come back."""
        running = self._pulse.running
        running_ms = int((now_s - running.since_s) * 1000) if running.plan else 0
        if running.time_limit_ms and running_ms > running.time_limit_ms + WATCHDOG_GRACE_MS:
            _log.error("step is hung; ending this process", plan=running.plan, running_ms=running_ms)
            self._end(ExitCode.HUNG)
        body = ExecutorHeartbeat(
            instance=self._identity.instance,
            running_plan=running.plan,
            running_ms=running_ms,
            start_phase=self._pulse.phase,
            pid=self._identity.pid,
            pid_namespace=self._identity.pid_namespace,
        )
        return FromExecutor(session=self._pulse.session, body=body)

    def stop(self) -> None:
        self._stopped.set()
        if self.is_alive():
            self.join()
