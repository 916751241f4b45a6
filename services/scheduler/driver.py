"""The virtual-clock driver: a core and an engine in one process, no sockets, no sleeping.

    driver = Driver(CoreSettings(token_budget=7), engine)
    driver.start()
    answers = [driver.submit([1, 2, 3], max_tokens=16), driver.submit([4] * 100, at_us=5_000, seed=7)]
    driver.run()
    assert answers[0].finished.cause is FinishCause.LENGTH
    print(answers[0].token_ids, answers[0].token_times_us)

Time is a number: each step takes what `step_us(plan, result)` says, and nothing else takes any. Whatever is to happen
at a moment goes to `at` (`driver.at(9_000, driver.lose_executor)`), whatever is to happen at a step to `before_step`:
`driver.before_step(3, lambda: driver.preempt(answer))` acts just before the third plan is made.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

from services.scheduler.answers import Answer, Answers
from services.scheduler.core.core import Core
from services.scheduler.core.settings import CoreSettings
from services.wire.chain import block_hashes, chain_root
from services.wire.event_log import (
    Event,
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
from services.wire.execution import GREEDY, Capacity, Reset, Sampling, StepPlan, StepResult
from services.wire.message import Int32Column, int32_column
from services.wire.scheduling import Cancel, StepRecord, Stop, Submit, ToRouter

ROUTER = 1


class Engine(Protocol):
    """What the driver drives: the real engine, or a simulated one."""

    def reset(self, session: int, reset: Reset) -> Capacity: ...

    def step(self, plan: StepPlan) -> StepResult: ...


class EngineLost(Exception):
    """Raised by an engine's `step` where a process would have died: the driver loses the executor and starts another."""


class Recorder(Protocol):
    """What may listen to all that the core is told and answers; see services.scheduler.recorder."""

    def event(self, event: LogEvent) -> None: ...

    def plan(self, at_us: int, plan: StepPlan | None, outputs: list[tuple[int, ToRouter]]) -> None: ...


def measured_us(_: StepPlan, result: StepResult) -> int:
    """A step takes as long as the engine says, at least a microsecond."""
    return max(1, result.step_us)


class Driver:
    """One core, one engine, one heap of moments."""

    def __init__(
        self,
        settings: CoreSettings,
        engine: Engine,
        *,
        step_us: Callable[[StepPlan, StepResult], int] = measured_us,
        recorder: Recorder | None = None,
        check_integrity: bool = False,
        restart_us: int = 1_000_000,
    ) -> None:
        """An `Engine` may raise `EngineLost`; `restart_us` later the next session starts.

        `check_integrity`: after each step, at the cost of a walk over all blocks.
        """
        self.settings = settings
        self.engine = engine
        self.core = Core(settings)
        self.now_us = 0
        self.records: list[StepRecord] = []
        self.answers = Answers()
        self._step_us = step_us
        self._recorder = recorder
        self._check_integrity = check_integrity
        self._restart_us = restart_us
        self._moments: list[tuple[int, int, Callable[[], None]]] = []
        self._before_step: dict[int, list[Callable[[], None]]] = {}
        self._num_moments = 0
        self._num_handles = 0
        self._session = 0
        self._num_sessions = 0
        self._has_executor = False
        self.is_engine_dead = False
        self._block_size = 16
        self._executor_free_us = 0
        self._num_in_flight = 0
        self._unlogged: list[tuple[int, ToRouter]] = []

    @property
    def num_sessions(self) -> int:
        """Executors that have come up so far."""
        return self._num_sessions

    @property
    def has_executor(self) -> bool:
        return self._has_executor

    # ---- what happens

    def start(self) -> None:
        """A router attaches and the executor comes up, now."""
        self.tell(SessionOpened(router=ROUTER))
        self.executor_up()

    def executor_up(self) -> None:
        """A new session: the engine is reset."""
        self._session += 1
        self._num_sessions += 1
        reset = Reset(max_slots=self.settings.max_slots, max_step_tokens=self.settings.token_budget)
        capacity = self.engine.reset(self._session, reset)
        self._block_size = capacity.groups[0].block_size
        self._executor_free_us, self._num_in_flight = self.now_us, 0
        self._has_executor, self.is_engine_dead = True, False
        self.tell(ExecutorUp(session=self._session, capacity=capacity))

    def lose_executor(self) -> None:
        """Now, with whatever plan is in its hands."""
        self._session += 1  # results that are under way answer to no session any more
        self._has_executor = False
        self.tell(ExecutorDown())

    def submit(
        self,
        token_ids: Sequence[int] | Int32Column,
        *,
        at_us: int | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int = -1,
        seed: int = 0,
        router: int = ROUTER,
        accepted: Sequence[int] = (),
        **fields: Any,
    ) -> Answer:
        """A request, now or at `at_us`; `fields` are those of Submit."""
        self._num_handles += 1
        known = int32_column([*token_ids, *accepted])
        root = fields.pop("chain_root", None) or chain_root(fields.get("tenant", "").encode())
        fields.setdefault("request_id", f"request-{self._num_handles}")
        submit = Submit(
            handle=self._num_handles,
            token_ids=known,
            prompt_length=len(known) - len(accepted),
            accepted_count=len(accepted),
            chain_root=root,
            block_hashes=b"".join(block_hashes(root, known, self._block_size)),
            seed=seed,
            sampling=sampling,
            max_tokens=max_tokens,
            **fields,
        )
        return self.submit_message(submit, router=router, at_us=at_us)

    def submit_message(self, submit: Submit, *, router: int = ROUTER, at_us: int | None = None) -> Answer:
        """The same for a ready message, whose handle must be new."""
        answer = Answer(submit, router)
        self.answers[router, submit.handle] = answer

        def hand_in() -> None:
            answer.submitted_us = self.now_us
            self.tell(RoutedSubmit(router=router, submit=submit))

        self._now_or_at(at_us, hand_in)
        return answer

    def cancel(self, answer: Answer, *, at_us: int | None = None) -> None:
        event = RoutedCancel(router=answer.router, cancel=Cancel(handle=answer.submit.handle))
        self._now_or_at(at_us, lambda: self.tell(event))

    def stop(self, answer: Answer, accepted_count: int, *, at_us: int | None = None) -> None:
        stop = Stop(handle=answer.submit.handle, accepted_count=accepted_count)
        self._now_or_at(at_us, lambda: self.tell(RoutedStop(router=answer.router, stop=stop)))

    def preempt(self, answer: Answer) -> bool:
        """Whether it ran, and was sent back to the queue now. Not in the event log: such a run does not replay."""
        return self.core.preempt(answer.router, answer.submit.handle)

    def close_router(self, router: int = ROUTER) -> None:
        self.tell(SessionClosed(router=router))

    def tell(self, body: Event) -> None:
        """Any event, now."""
        event = LogEvent(at_us=self.now_us, body=body)
        if self._recorder:
            self._recorder.event(event)
        self.core.handle(event)
        self._collect()

    def at(self, at_us: int, act: Callable[[], None]) -> None:
        """`act` when the clock stands at `at_us`; in the order of the calls where moments are equal."""
        self._num_moments += 1
        heappush(self._moments, (at_us, self._num_moments, act))

    def before_step(self, step: int, act: Callable[[], None]) -> None:
        """`act` just before the core is asked for plan number `step`, counted from 1 over all sessions."""
        self._before_step.setdefault(step, []).append(act)

    # ---- the loop

    def run(self, until_us: int | None = None) -> None:
        """Until nothing is left to happen, or until the clock passes `until_us`."""
        self._plan()
        while (moment := self._next_us()) is not None and (until_us is None or moment <= until_us):
            self.now_us = max(self.now_us, moment)
            if self._moments and self._moments[0][0] <= moment:
                heappop(self._moments)[2]()
            else:
                self.tell(Tick())
            self._plan()
        if until_us is not None:
            self.now_us = max(self.now_us, until_us)

    def _next_us(self) -> int | None:
        deadline = self.core.next_deadline_us()
        moments = [self._moments[0][0]] if self._moments else []
        return min([*moments, *([] if deadline is None else [deadline])], default=None)

    def _plan(self) -> None:
        while True:
            if self._num_in_flight < self.settings.pipeline_depth:
                for act in self._before_step.pop(len(self.records) + 1, ()):
                    act()
            planned = self.core.plan(self.now_us)
            self._collect()
            if self._recorder:
                self._recorder.plan(self.now_us, planned[0] if planned else None, self._unlogged)
                self._unlogged = []
            if planned is None:
                return
            self._step(*planned)

    def _step(self, plan: StepPlan, record: StepRecord) -> None:
        """The engine computes at once; its result arrives when the step's time is over."""
        self.records.append(record)
        self._num_in_flight += 1
        if self._check_integrity:
            self.core.check_integrity()
        if self.is_engine_dead:
            return
        try:
            result = self.engine.step(plan)
        except EngineLost:
            self.is_engine_dead, session = True, self._session
            self.at(max(self.now_us, self._executor_free_us), lambda: self._die(session))
            return
        duration_us, session = self._step_us(plan, result), self._session
        self._executor_free_us = max(self._executor_free_us, self.now_us) + duration_us

        def arrive() -> None:
            if session == self._session:
                self._num_in_flight -= 1
                self.tell(result)
                if self._check_integrity:
                    self.core.check_integrity()

        self.at(self._executor_free_us, arrive)

    def _die(self, session: int) -> None:
        if session == self._session:
            self.lose_executor()
            self.at(self.now_us + self._restart_us, self._restart)

    def _restart(self) -> None:
        if not self._has_executor:
            self.executor_up()

    def _now_or_at(self, at_us: int | None, act: Callable[[], None]) -> None:
        if at_us is None:
            act()
        else:
            self.at(at_us, act)

    def _collect(self) -> None:
        outputs = self.core.take_outputs()
        self._unlogged += outputs if self._recorder else []
        self.answers.take(outputs, self.now_us)
