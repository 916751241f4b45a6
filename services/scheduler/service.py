"""The scheduler's main loop: what executor and routers say goes into the core, plans and messages come out."""

import dataclasses
from collections.abc import Callable, Iterable

import zmq

from services.runtime.errors import invalid
from services.runtime.lifecycle import ExitCode
from services.runtime.logging import get_logger
from services.scheduler.commands import BeginDrain, CancelById, Command, Explain
from services.scheduler.core.core import Core
from services.scheduler.core.illegal_event import ExecutorBroke, RouterBroke
from services.scheduler.executor_link import ExecutorLink
from services.scheduler.hub import Hub
from services.scheduler.inbox import Inbox
from services.scheduler.recorder import Recorder
from services.wire.event_log import Drain, Event, ExecutorUp, LogEvent, SessionOpened, Tick
from services.wire.scheduling import CancelByIdResponse, ExplainByIdRequest, GetModelCardResponse, ToRouter

LOAD_INTERVAL_US = 250_000

_log = get_logger(__name__)


class SchedulerService:
    """Owns the core and the executor's link; runs in one thread, which waits in one place."""

    def __init__(
        self,
        core: Core,
        link: ExecutorLink,
        inbox: Inbox[Command],
        hub: Hub,
        *,
        recorder: Recorder | None,
        clock_us: Callable[[], int],
        heartbeat_timeout_us: int,
        drain_timeout_us: int,
    ) -> None:
        self._core = core
        self._link = link
        self._inbox = inbox
        self._hub = hub
        self._recorder = recorder
        self._clock_us = clock_us
        self._heartbeat_timeout_us = heartbeat_timeout_us
        self._drain_timeout_us = drain_timeout_us
        self._drain_ends_us: int | None = None
        self._load_due_us = 0
        self._told_progress = False
        self._was_idle = True
        self._may_plan = False
        self._outputs: list[tuple[int, ToRouter]] = []
        self._unrecorded: list[tuple[int, ToRouter]] = []

    def run(self) -> ExitCode:
        """Serves until a drain is complete."""
        while not self._is_drained():
            has_commands = self._wait()
            self._take_frames()
            if has_commands:
                self._take_commands()
            self._watch_time()
            self._send_plans()
            self._deliver()
            self._tell_load()
        return ExitCode.OK

    def _wait(self) -> bool:
        """Until a frame, a command or the executor's end has come, or something is due. Whether commands have come."""
        awaited: list[tuple[zmq.Socket[bytes] | int, int]] = [
            (self._link.socket, zmq.POLLIN),
            (self._inbox.fd, zmq.POLLIN),
        ]
        if (process_fd := self._link.process_fd) is not None:
            awaited.append((process_fd, zmq.POLLIN))
        deadline_us = self._core.next_deadline_us()
        due_us = self._load_due_us if deadline_us is None else min(deadline_us, self._load_due_us)
        ready = zmq.zmq_poll(awaited, max(0, -(-(due_us - self._clock_us()) // 1000)))
        return (self._inbox.fd, zmq.POLLIN) in ready

    def _take_frames(self) -> None:
        self._handle_from_executor(self._link.receive(self._clock_us()))

    def _take_commands(self) -> None:
        for command in self._inbox.take():
            match command:
                case Explain():
                    command.answer(self._core.explain(command.request, self._clock_us()))
                case CancelById():
                    self._cancel_by_id(command)
                case BeginDrain():
                    self._begin_drain()
                case event:
                    self._handle_from_router(event)

    def _watch_time(self) -> None:
        """Deadlines that have passed, and an executor that is lost."""
        now_us = self._clock_us()
        deadline_us = self._core.next_deadline_us()
        if deadline_us is not None and deadline_us <= now_us:
            self._handle(Tick())
        self._handle_from_executor(self._link.watch_over(now_us))

    def _send_plans(self) -> None:
        """Only an event can have made a plan possible."""
        while self._may_plan:
            now_us = self._clock_us()
            planned = self._core.plan(now_us)
            self._collect()
            if self._recorder:
                self._recorder.plan(now_us, planned[0] if planned else None, self._unrecorded)
                self._unrecorded = []
            if planned is None:
                self._may_plan = False
                return
            plan, record = planned
            if not self._link.send(plan, now_us):
                self._handle_from_executor(self._link.give_up("it takes no plan"))
            self._hub.tell_record(record)

    def _collect(self) -> None:
        """Takes what the core has to say; it is delivered when the next plan is on its way."""
        outputs = self._core.take_outputs()
        self._outputs += outputs
        if self._recorder:
            self._unrecorded += outputs

    def _deliver(self) -> None:
        if self._outputs:
            self._hub.deliver(self._outputs)
            self._outputs = []

    def _tell_load(self) -> None:
        """Load and readiness: each quarter second, and at once when progress stops or begins again."""
        now_us = self._clock_us()
        progress = self._core.is_progressing(now_us) and not self._link.is_silent(now_us, self._heartbeat_timeout_us)
        is_idle = self._core.is_idle
        if is_idle and not self._was_idle:
            self._core.check_integrity()
        self._was_idle = is_idle
        if now_us >= self._load_due_us or progress is not self._told_progress:
            self._load_due_us = now_us + LOAD_INTERVAL_US
            self._hub.tell_load(dataclasses.replace(self._core.load(now_us), making_progress=progress))
            self._told_progress = progress

    def _handle(self, event: Event) -> None:
        logged = LogEvent(at_us=self._clock_us(), body=event)
        if self._recorder:
            self._recorder.event(logged)
        self._core.handle(logged)
        self._collect()
        self._may_plan = True

    def _handle_from_router(self, event: Event) -> None:
        """A router that breaks the protocol loses its stream; nobody else notices."""
        try:
            self._handle(event)
        except RouterBroke as error:
            _log.warning("router broke the protocol", router=error.router, reason=str(error))
            self._hub.refuse(error.router, invalid(str(error)))
            return
        if isinstance(event, SessionOpened):
            self._outputs.append((event.router, ToRouter(body=self._core.hello())))

    def _handle_from_executor(self, events: Iterable[Event]) -> None:
        """An executor that breaks the protocol is lost."""
        for event in events:
            try:
                self._handle(event)
            except ExecutorBroke as error:
                self._handle_from_executor(self._link.give_up(str(error)))
                continue
            if isinstance(event, ExecutorUp):
                self._hub.tell_card(GetModelCardResponse(ready=True, card=event.capacity.card))

    def _cancel_by_id(self, command: CancelById) -> None:
        request = command.request
        question = ExplainByIdRequest(tenant=request.tenant, request_id=request.request_id)
        cancelled = len(self._core.explain(question, self._clock_us()).sequences)
        self._handle(request)
        command.answer(CancelByIdResponse(cancelled=cancelled))

    def _begin_drain(self) -> None:
        load = self._core.load(self._clock_us())
        _log.info("draining", running=load.running, waiting=load.waiting)
        self._hub.tell_draining()
        self._handle(Drain())
        self._drain_ends_us = self._clock_us() + self._drain_timeout_us

    def _is_drained(self) -> bool:
        if self._drain_ends_us is None:
            return False
        return self._core.is_idle or self._clock_us() >= self._drain_ends_us
