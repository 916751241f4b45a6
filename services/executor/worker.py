"""The executor's main loop: a frame from the scheduler in, one call of the engine, the answer out."""

import time
from collections.abc import Callable
from typing import Protocol

from services.executor.heartbeat import HEARTBEAT_INTERVAL_S, ExecutorChannel, Identity, Pulse, Running
from services.runtime.lifecycle import ExitCode
from services.runtime.logging import get_logger
from services.wire import codec
from services.wire.execution import (
    PROTOCOL,
    Capacity,
    ExecutorHello,
    FromExecutor,
    Reset,
    StepPlan,
    StepResult,
    ToExecutor,
)
from services.wire.message import InvalidMessage

HELLO_INTERVAL_S = 0.25

_log = get_logger(__name__)


class Engine(Protocol):
    """What computes. Its errors are bugs or a broken device: the worker ends on any."""

    def reset(self, session: int, reset: Reset) -> Capacity: ...

    def step(self, plan: StepPlan) -> StepResult: ...


def decode_to_executor(data: bytes) -> ToExecutor:
    """A frame from the scheduler. Raises `InvalidMessage`, also for another protocol."""
    frame = codec.decode(ToExecutor, data)
    if frame.protocol != PROTOCOL:
        raise InvalidMessage(f"the scheduler speaks protocol {frame.protocol}, this executor {PROTOCOL}")
    return frame


class Worker:
    """Serves one engine to one scheduler at a time."""

    def __init__(
        self,
        engine: Engine,
        channel: ExecutorChannel,
        pulse: Pulse,
        identity: Identity,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._channel = channel
        self._pulse = pulse
        self._identity = identity
        self._clock = clock
        self._next_plan = 0
        self._hello_due_s = 0.0
        self._stopping = False

    def run(self) -> ExitCode:
        """Serves until `stop`; what is in work is finished and answered."""
        self._pulse.phase = "ready"
        while not self._stopping:
            if self._pulse.session == 0:
                self._say_hello()
            frame = self._channel.receive(int(HEARTBEAT_INTERVAL_S * 1000))
            if frame is None:
                continue
            if isinstance(frame.body, Reset):
                self._reset(frame.session, frame.body)
            elif frame.session != self._pulse.session:
                self._channel.drops.add("a plan of another session")
            elif frame.body.plan != self._next_plan:
                _log.error("plan out of order", plan=frame.body.plan, due=self._next_plan)
                return ExitCode.PROTOCOL
            else:
                self._step(frame.body)
        return ExitCode.OK

    def stop(self) -> None:
        """Ends `run` within a quarter second, or when the running step has ended; may be called by a signal handler."""
        self._stopping = True

    def _say_hello(self) -> None:
        """Asks for a reset, again and again until one comes: nobody may have heard the last one."""
        now_s = self._clock()
        if now_s >= self._hello_due_s:
            self._hello_due_s = now_s + HELLO_INTERVAL_S
            who = self._identity
            hello = ExecutorHello(instance=who.instance, pid=who.pid, pid_namespace=who.pid_namespace)
            self._channel.send(FromExecutor(session=0, body=hello))

    def _reset(self, session: int, reset: Reset) -> None:
        if session == self._pulse.session:
            return  # the scheduler asked twice, because our Capacity was still on its way
        capacity = self._engine.reset(session, reset)
        self._pulse.session = session
        self._next_plan = 1
        self._send(capacity)
        _log.info("session began", session=session, max_slots=capacity.max_slots)

    def _step(self, plan: StepPlan) -> None:
        self._pulse.running = Running(plan.plan, self._clock(), plan.time_limit_ms)
        result = self._engine.step(plan)
        self._pulse.running = Running()
        self._next_plan += 1
        self._send(result)

    def _send(self, body: Capacity | StepResult) -> None:
        """Answers the scheduler. One that cannot be reached has forgotten this session: a new one is asked for."""
        if not self._channel.send(FromExecutor(session=self._pulse.session, body=body)):
            _log.warning("scheduler lost", session=self._pulse.session)
            self._pulse.session = 0
