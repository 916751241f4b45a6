"""The core: events in, plans and messages out."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from services.scheduler.core.admission import max_request_tokens, pool_tokens
from services.scheduler.core.explain import view
from services.scheduler.core.flight import Flight
from services.scheduler.core.illegal_event import ExecutorBroke, IllegalEvent, RouterBroke
from services.scheduler.core.intake import Intake
from services.scheduler.core.lifecycle import Lifecycle
from services.scheduler.core.pipeline import Pipeline
from services.scheduler.core.planner import Planner, planner_of
from services.scheduler.core.progress import Progress
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from services.scheduler.core.steps import Steps
from services.wire.event_log import (
    Drain,
    ExecutorDown,
    ExecutorUp,
    LogEvent,
    RoutedCancel,
    RoutedStop,
    RoutedSubmit,
    SessionClosed,
    SessionOpened,
    Tick,
)
from services.wire.execution import GrammarReady, StepPlan, StepResult
from services.wire.scheduling import (
    CancelByIdRequest,
    ExplainByIdRequest,
    ExplainByIdResponse,
    FinishCause,
    Load,
    SchedulerHello,
    StepRecord,
    ToRouter,
)

MAX_HANDLE = 2**31 - 1


class Core:
    """The scheduler's one state machine: no I/O, no clock; the same events and calls give byte-identical plans.

    The owner feeds `handle`, asks `plan` whenever an event may have made one possible (and again after each, while it
    returns one), sends plans in that order, and forwards what `take_outputs` returns. Each of them may end requests.
    """

    def __init__(self, settings: CoreSettings) -> None:
        self.settings = settings
        self.is_draining = False
        self._now_us = 0
        self._progress = Progress(settings)
        self._lifecycle = Lifecycle(settings, self._progress)
        self._intake = Intake(self._lifecycle)
        self._planner: Planner | None = None
        self._pipeline: Pipeline | None = None
        self._steps: Steps | None = None
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            SessionOpened: self._open_router,
            SessionClosed: self._close_router,
            RoutedSubmit: self._submit,
            RoutedStop: self._stop,
            RoutedCancel: self._cancel,
            CancelByIdRequest: self._cancel_by_id,
            ExecutorUp: self._executor_up,
            ExecutorDown: self._executor_down,
            StepResult: self._result,
            GrammarReady: self._grammar_ready,
            Tick: self._tick,
            Drain: self._drain,
        }

    # ---- what the service calls

    def handle(self, event: LogEvent) -> None:
        """Raises `IllegalEvent`, with nothing changed, for an event that the state does not allow."""
        before_us, self._now_us = self._now_us, max(self._now_us, event.at_us)
        was_idle = self.is_idle
        try:
            self._handlers[type(event.body)](event.body)
        except IllegalEvent:
            self._now_us = before_us
            raise
        if was_idle and not self.is_idle:
            self._progress.moved(self._now_us)

    def plan(self, at_us: int) -> tuple[StepPlan, StepRecord] | None:
        """The next step. None: nothing to compute, the pipeline is full, it is too early, or there is no executor."""
        self._now_us = max(self._now_us, at_us)
        self._lifecycle.expire(self._now_us)
        planner, pipeline, steps = self._planner, self._pipeline, self._steps
        if planner is None or pipeline is None or steps is None or pipeline.is_full:
            return None
        planner.begin_step(self._now_us)
        if not pipeline.is_time(self._now_us):
            return None
        draft = planner.draft(self._now_us)
        return steps.send(draft) if draft else None

    def take_outputs(self) -> list[tuple[int, ToRouter]]:
        """(router, message) since the last call, in the order in which they are to be sent."""
        return self._lifecycle.outbox.take()

    def next_deadline_us(self) -> int | None:
        """When a Tick is needed, if nothing else happens before. It may be earlier than strictly necessary."""
        alarm_us, plan_us = self._lifecycle.alarms.next_us(), self._pipeline.due_us if self._pipeline else None
        return plan_us if alarm_us is None else alarm_us if plan_us is None else min(alarm_us, plan_us)

    @property
    def is_idle(self) -> bool:
        """No request lives."""
        return not len(self._lifecycle.registry)

    def is_progressing(self, at_us: int) -> bool:
        """Whether steps come as fast as those in flight promise, or no request lives."""
        return self.is_idle or self._progress.is_recent(at_us, self._first_flight())

    @property
    def overhead_us(self) -> dict[str, int]:
        """Executor time that is on no bill, by cause."""
        return {cause: ns // 1000 for cause, ns in self._lifecycle.overhead.ns.items()}

    def hello(self) -> SchedulerHello:
        """For a router that attaches now. When an executor comes, `take_outputs` has one for each that is attached."""
        life, settings = self._lifecycle, self.settings
        if life.session is None:
            return SchedulerHello()
        capacity = life.session.capacity
        return SchedulerHello(
            fingerprint=capacity.card.fingerprint,
            numerics_digest=capacity.card.numerics_digest,
            executor_ready=True,
            block_size=capacity.groups[0].block_size,
            pool_tokens=pool_tokens(capacity),
            max_request_tokens=max_request_tokens(capacity),
            default_max_tokens=settings.default_max_tokens,
            max_waiting_requests=settings.max_waiting_requests,
            max_waiting_tokens=settings.max_waiting_tokens,
        )

    def load(self, at_us: int) -> Load:
        life, session = self._lifecycle, self._lifecycle.session
        pool = session.kv.pool if session else None
        return Load(
            running=len(session.running) if session else 0,
            waiting=len(life.queue),
            waiting_tokens=life.queue.num_tokens,
            free_blocks=pool.num_idle - pool.num_idle_cached if pool else 0,
            cached_blocks=pool.num_idle_cached if pool else 0,
            total_blocks=pool.num_blocks if pool else 0,
            making_progress=self.is_progressing(at_us),
            last_step_age_us=self._progress.last_step_age_us(at_us),
            predicted_step_us=self._progress.predicted_us(self._first_flight()),
            draining=self.is_draining,
        )

    def _first_flight(self) -> Flight | None:
        session = self._lifecycle.session
        return session.flights[0] if session and session.flights else None

    def explain(self, request: ExplainByIdRequest, at_us: int) -> ExplainByIdResponse:
        """One view for each live answer of the request; none: no such live request."""
        del at_us  # estimates are durations from now
        life = self._lifecycle
        sequences = life.registry.of_request(request.tenant, request.request_id)
        return ExplainByIdResponse(
            sequences=tuple(view(sequence, life, self._planner, self._progress) for sequence in sequences)
        )

    def preempt(self, router: int, handle: int) -> bool:
        """Whether it ran: then it goes back to the queue as if blocks had run out. For tests; not in the event log."""
        sequence = self._lifecycle.registry.find(router, handle)
        if sequence is None or not sequence.is_running:
            return False
        assert self._planner is not None
        self._planner.preempt(sequence, self._now_us)
        return True

    def check_integrity(self) -> None:
        """Raises AssertionError unless the books balance: blocks, slots, queue, quotas."""
        life = self._lifecycle
        life.queue.check_integrity()
        running = list(life.session.running) if life.session else []
        assert len(life.registry) == len(running) + len(life.queue), "a live sequence neither runs nor waits"
        assert {id(sequence) for sequence in life.registry} == {id(sequence) for sequence in (*running, *life.queue)}
        charged: Counter[str] = Counter()
        if life.session:
            life.session.check_integrity()
            assert self._planner is not None
            self._planner.check_integrity()
            for sequence in running:
                charged[sequence.submit.tenant] += life.session.running.final_blocks(sequence)
        life.quotas.check_integrity(Counter(sequence.submit.tenant for sequence in life.registry), charged)

    # ---- routers

    def _open_router(self, event: SessionOpened) -> None:
        if self._lifecycle.registry.has_router(event.router):
            raise RouterBroke(event.router, "opened twice")
        self._lifecycle.registry.open(event.router)

    def _close_router(self, event: SessionClosed) -> None:
        self._require_router(event.router)
        for sequence in self._lifecycle.registry.of_router(event.router):
            self._lifecycle.abandon(sequence, self._now_us)
        self._lifecycle.registry.close(event.router)
        self._lifecycle.outbox.forget(event.router)

    def _submit(self, event: RoutedSubmit) -> None:
        if not 0 <= event.submit.handle <= MAX_HANDLE:
            raise RouterBroke(event.router, f"handle {event.submit.handle} does not fit a column")
        if self._find(event.router, event.submit.handle):
            raise RouterBroke(event.router, f"handle {event.submit.handle} is in use")
        self._intake.submit(event.router, event.submit, self._now_us, is_draining=self.is_draining)

    def _stop(self, event: RoutedStop) -> None:
        sequence, count = self._find(event.router, event.stop.handle), event.stop.accepted_count
        if sequence:
            self._lifecycle.finish(sequence, FinishCause.STOPPED, self._now_us, accepted_count=count)

    def _cancel(self, event: RoutedCancel) -> None:
        sequence = self._find(event.router, event.cancel.handle)
        if sequence:
            self._lifecycle.finish(sequence, FinishCause.CANCELLED, self._now_us)

    def _cancel_by_id(self, event: CancelByIdRequest) -> None:
        for sequence in self._lifecycle.registry.of_request(event.tenant, event.request_id):
            self._lifecycle.finish(sequence, FinishCause.CANCELLED, self._now_us)

    def _find(self, router: int, handle: int) -> Sequence | None:
        """None where it has ended already: a word to it and its last word have crossed."""
        self._require_router(router)
        return self._lifecycle.registry.find(router, handle)

    def _require_router(self, router: int) -> None:
        if not self._lifecycle.registry.has_router(router):
            raise RouterBroke(router, "not attached")

    # ---- the executor

    def _executor_up(self, event: ExecutorUp) -> None:
        """Also while another is there: that one is lost then."""
        life = self._lifecycle
        if life.session:
            life.lose_executor(self._now_us)
        life.capacity = event.capacity
        life.session = session = Session(event.session, event.capacity, self.settings, life.quotas)
        self._planner = planner_of(self.settings, session, life.queue, life.quotas, self._progress.cost)
        self._pipeline = Pipeline(session, self._planner, self._progress, self.settings.pipeline_depth)
        self._steps = Steps(session, life, self._progress)
        self._progress.executor_came(session, self._now_us)
        for router in life.registry.routers:
            life.outbox.put(router, self.hello())
        for sequence in list(life.queue):
            life.check_fit(sequence, self._now_us)

    def _executor_down(self, _: ExecutorDown) -> None:
        if self._lifecycle.session is None:
            raise ExecutorBroke("there is no executor that could be lost")
        self._lifecycle.lose_executor(self._now_us)
        self._planner = self._pipeline = self._steps = None

    def _result(self, result: StepResult) -> None:
        if self._steps is None:
            raise ExecutorBroke("a result without an executor")
        self._steps.answer(result, self._now_us)

    def _grammar_ready(self, event: GrammarReady) -> None:
        raise ExecutorBroke(f"slot {event.slot} was given no grammar")

    # ---- time

    def _tick(self, _: Tick) -> None:
        self._lifecycle.expire(self._now_us)

    def _drain(self, _: Drain) -> None:
        """Newcomers are refused from now on; those that live, and those that are resubmitted, finish."""
        self.is_draining = True


__all__ = ["Core", "ExecutorBroke", "IllegalEvent", "RouterBroke"]
