"""The scheduler's end of the executor's link: sessions, frames in and out, and when the executor is lost.

    no executor --Hello or heartbeat (ready)--> reset sent --Capacity--> session --lost--> no executor

Everything that the core needs to know comes out as events of the log; a frame that fits no state is dropped.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import zmq

from services.runtime.logging import get_logger
from services.runtime.zeromq import ServerChannel
from services.scheduler.process_handle import ProcessHandle
from services.scheduler.watchdog import Watchdog
from services.wire import codec
from services.wire.event_log import ExecutorDown, ExecutorUp
from services.wire.execution import (
    PROTOCOL,
    Capacity,
    ExecutorHeartbeat,
    ExecutorHello,
    FromExecutor,
    GrammarReady,
    Reset,
    StepPlan,
    StepResult,
    ToExecutor,
    main_identity,
)
from services.wire.message import InvalidMessage

RESET_AGAIN_US = 1_000_000  # an executor that still says hello after so long has not got the Reset
_UNSEEN_ALIVE_US = 1_000_000  # four heartbeats
_REMEMBERED_DEAD = 16

LinkEvent = ExecutorUp | ExecutorDown | StepResult | GrammarReady

_log = get_logger(__name__)


def decode_from_executor(data: bytes) -> FromExecutor:
    """A frame from an executor. Raises `InvalidMessage`, also for another protocol."""
    frame = codec.decode(FromExecutor, data)
    if frame.protocol != PROTOCOL:
        raise InvalidMessage(f"the executor speaks protocol {frame.protocol}, this scheduler {PROTOCOL}")
    return frame


@dataclass(slots=True)
class _Executor:
    """The executor that was sent a Reset; `up` once it has answered with its capacity."""

    instance: int
    session: int
    process: ProcessHandle
    watchdog: Watchdog
    reset_sent_us: int
    up: bool = False

    def is_alive(self, at_us: int) -> bool:
        """As the kernel says of a process that can be watched, and as its heartbeats say of any other."""
        if self.process.fd is not None:
            return not self.process.has_ended()
        return at_us - self.watchdog.last_heard_us < _UNSEEN_ALIVE_US


class ExecutorLink:
    """Talks to one executor at a time; another takes its place when it is dead, and says hello in vain before."""

    def __init__(
        self,
        channel: ServerChannel[ToExecutor, FromExecutor],
        reset: Reset,
        *,
        lost_timeout_us: int,
        mint_session: Callable[[], int],
    ) -> None:
        self._channel = channel
        self._reset = reset
        self._lost_timeout_us = lost_timeout_us
        self._mint_session = mint_session
        self._executor: _Executor | None = None
        self._last_alive_us: int | None = None
        self._dead: deque[int] = deque(maxlen=_REMEMBERED_DEAD)  # instances given up for good: frames may linger

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """To poll for frames."""
        return self._channel.socket

    @property
    def process_fd(self) -> int | None:
        """To poll for the executor's end, where that can be seen."""
        return self._executor.process.fd if self._executor else None

    def is_silent(self, at_us: int, timeout_us: int) -> bool:
        """Whether no executor in a session has given a sign of life for so long; true before there was any."""
        return self._last_alive_us is None or at_us - self._last_alive_us >= timeout_us

    def receive(self, at_us: int) -> Iterator[LinkEvent]:
        """The events in the frames that have arrived."""
        while (received := self._channel.receive()) is not None:
            frame = received[1]
            match frame.body:
                case ExecutorHello() as hello:
                    yield from self._take_hello(hello, at_us)
                case ExecutorHeartbeat() as heartbeat:
                    self._take_heartbeat(heartbeat, at_us)
                case body:
                    yield from self._take_in_session(frame.session, body, at_us)

    def send(self, plan: StepPlan, at_us: int) -> bool:
        """Sends a plan of the session; False when the executor takes nothing: it is to be given up."""
        executor = self._executor
        if executor is None or not executor.up:
            return False
        executor.watchdog.plan_sent(plan, at_us)
        return self._channel.send(main_identity(executor.instance), ToExecutor(session=executor.session, body=plan))

    def watch_over(self, at_us: int) -> Iterator[LinkEvent]:
        """Gives up an executor that has ended, is silent, or hangs in a step. Frames are received first."""
        executor = self._executor
        if executor is None:
            return
        if executor.process.has_ended():
            yield from self.receive(at_us)  # its last result tells in which step it ended
            if self._executor is executor:
                yield from self.give_up("its process has ended")
        elif reason := executor.watchdog.verdict(at_us):
            yield from self.give_up(reason)

    def give_up(self, reason: str) -> Iterator[LinkEvent]:
        """The executor is lost: killed where that is possible, so that it is replaced."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        killed = executor.process.kill()
        executor.process.close()
        if killed:
            self._dead.append(executor.instance)
        _log.warning("executor lost", reason=reason, session=executor.session, killed=killed)
        if executor.up:
            yield ExecutorDown()

    def close(self) -> None:
        if self._executor:
            self._executor.process.close()
        self._channel.close()

    def _take_hello(self, hello: ExecutorHello, at_us: int) -> Iterator[LinkEvent]:
        """A process without a session asks for one."""
        executor = self._executor
        if hello.instance in self._dead or hello.start_phase != "ready":
            return
        if executor and executor.instance == hello.instance:
            if not executor.up:
                self._send_reset_again(executor, at_us)
                return
            yield from self._forget("it has lost its session")
        elif executor:
            if executor.is_alive(at_us):
                self._channel.drops.add("a hello of another executor, while the one in session lives")
                return
            yield from self.give_up("it is dead, and another executor has come")
        self._begin(hello.instance, hello.pid, hello.pid_namespace, at_us)

    def _take_heartbeat(self, heartbeat: ExecutorHeartbeat, at_us: int) -> None:
        executor = self._executor
        if executor is None:
            if heartbeat.instance not in self._dead and heartbeat.start_phase == "ready":
                self._begin(heartbeat.instance, heartbeat.pid, heartbeat.pid_namespace, at_us)
        elif executor.instance == heartbeat.instance:
            executor.watchdog.heard(at_us)
            if executor.up:
                self._last_alive_us = at_us

    def _take_in_session(
        self, session: int, body: Capacity | StepResult | GrammarReady, at_us: int
    ) -> Iterator[LinkEvent]:
        executor = self._executor
        if executor is None or executor.session != session or executor.up is isinstance(body, Capacity):
            self._channel.drops.add("a frame of another session")
        elif isinstance(body, Capacity):
            executor.up = True
            executor.watchdog.capacity_came(at_us)
            self._last_alive_us = at_us
            _log.info("executor ready", session=session, model=body.card.name, blocks=body.groups[0].num_blocks)
            yield ExecutorUp(session=session, capacity=body)
        elif isinstance(body, GrammarReady):
            yield body
        elif executor.watchdog.is_due(body.plan):
            executor.watchdog.result_came(at_us)
            yield body
        else:
            yield from self.give_up(f"it answered plan {body.plan}, which was not due")

    def _begin(self, instance: int, pid: int, namespace: int, at_us: int) -> None:
        """Sends the Reset that starts a session; the executor is ours once the socket has taken it."""
        session = self._mint_session()
        if self._channel.send(main_identity(instance), ToExecutor(session=session, body=self._reset)):
            watchdog = Watchdog(self._lost_timeout_us, last_heard_us=at_us, reset_sent_us=at_us)
            self._executor = _Executor(instance, session, ProcessHandle(pid, namespace), watchdog, at_us)

    def _send_reset_again(self, executor: _Executor, at_us: int) -> None:
        executor.watchdog.heard(at_us)
        if at_us - executor.reset_sent_us >= RESET_AGAIN_US:
            executor.reset_sent_us = at_us
            message = ToExecutor(session=executor.session, body=self._reset)
            self._channel.send(main_identity(executor.instance), message)

    def _forget(self, reason: str) -> Iterator[LinkEvent]:
        """The session is over, the process lives."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.process.close()
            _log.warning("session lost", reason=reason, session=executor.session)
            if executor.up:
                yield ExecutorDown()
