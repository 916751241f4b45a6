"""The service's loop, turned by hand: a real core and a simulated engine, a fake link and hub, and a clock that is a number."""

from collections import deque

import pytest

from services.executor.simulated import SimulatedExecutor, SimulatedModel
from services.runtime.lifecycle import ExitCode
from services.scheduler.commands import BeginDrain, CancelById, Explain
from services.scheduler.core.core import Core
from services.scheduler.core.settings import CoreSettings
from services.scheduler.inbox import Inbox
from services.scheduler.service import LOAD_INTERVAL_US, SchedulerService
from services.wire.event_log import ExecutorDown, ExecutorUp, RoutedSubmit, SessionClosed, SessionOpened
from services.wire.execution import Reset, Sampling, StepResult
from services.wire.message import int32_column
from services.wire.scheduling import (
    CancelByIdRequest,
    ExplainByIdRequest,
    Finished,
    Rejected,
    SchedulerHello,
    StepTokens,
    Submit,
)


class FakeLink:
    """An executor at the end of the line: answers each plan at once, on the next receive."""

    def __init__(self):
        self.engine = SimulatedExecutor(SimulatedModel(script="count"))
        self.events = deque()
        self.given_up = []
        self.takes_plans = True
        self.silent = False
        self.plans = []

    def bring_up(self, session=1):
        capacity = self.engine.reset(session, Reset(max_slots=8, max_step_tokens=64))
        self.events.append(ExecutorUp(session=session, capacity=capacity))

    def receive(self, _at_us):
        while self.events:
            yield self.events.popleft()

    def watch_over(self, _at_us):
        return ()

    def send(self, plan, _at_us):
        self.plans.append(plan)
        if self.takes_plans:
            self.events.append(self.engine.step(plan))
        return self.takes_plans

    def give_up(self, reason):
        self.given_up.append(reason)
        yield ExecutorDown()

    def is_silent(self, _at_us, _timeout_us):
        return self.silent


class FakeHub:
    def __init__(self):
        self.delivered = []
        self.refused = []
        self.loads = []
        self.cards = []
        self.records = []
        self.draining = False

    def deliver(self, messages):
        self.delivered += messages

    def refuse(self, router, refusal):
        self.refused.append((router, refusal))

    def tell_load(self, load):
        self.loads.append(load)

    def tell_card(self, card):
        self.cards.append(card)

    def tell_record(self, record):
        self.records.append(record)

    def tell_draining(self):
        self.draining = True


class Bench:
    def __init__(self):
        self.link, self.hub, self.inbox, self.now_us = FakeLink(), FakeHub(), Inbox(), 0
        self.core = Core(CoreSettings(token_budget=64, max_slots=8))
        self.service = SchedulerService(
            self.core,
            self.link,
            self.inbox,
            self.hub,
            recorder=None,
            clock_us=lambda: self.now_us,
            heartbeat_timeout_us=2_000_000,
            drain_timeout_us=1_000_000,
        )
        self.service._wait = self._wait
        self.turns_left = 0

    def _wait(self):
        """In the place of the poll: a millisecond passes, commands may have come; after the last turn the loop is broken off."""
        if not self.turns_left:
            raise StopIteration
        self.turns_left -= 1
        self.now_us += 1000
        return True

    def turn(self, turns=1):
        self.turns_left = turns
        with pytest.raises(StopIteration):
            self.service.run()

    def bodies(self, router, kind):
        return [message.body for to, message in self.hub.delivered if to == router and isinstance(message.body, kind)]


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.inbox.close()


def _submit(handle=1, max_tokens=5, request_id="r"):
    return Submit(
        handle=handle,
        request_id=request_id,
        token_ids=int32_column(list(b"hello")),
        prompt_length=5,
        chain_root=bytes(16),
        sampling=Sampling(),
        max_tokens=max_tokens,
    )


def test_a_request_goes_through(bench):
    """Hello first, then the tokens step by step, then the last word; the card and the records are told."""
    bench.link.bring_up()
    bench.inbox.put(SessionOpened(router=1))
    bench.inbox.put(RoutedSubmit(router=1, submit=_submit()))
    bench.turn(10)
    assert isinstance(bench.hub.delivered[0][1].body, SchedulerHello)
    assert bench.hub.delivered[0][1].body.executor_ready
    tokens = [token for body in bench.bodies(1, StepTokens) for token in body.tokens.tolist()]
    assert bytes(tokens) == b"1 2 3"
    assert len(bench.bodies(1, Finished)) == 1
    assert bench.hub.cards[-1].card.name == "simulated-count"
    assert [record.step for record in bench.hub.records] == [1, 2, 3, 4, 5]


def test_an_idle_core_is_not_asked_for_plans(bench):
    """Turns in which nothing happened do not call the planner."""
    bench.link.bring_up()
    bench.turn(2)
    calls = []
    bench.core.plan = calls.append
    bench.turn(50)
    assert calls == []


def test_a_router_that_breaks_the_protocol_is_refused_alone(bench):
    """A handle used twice refuses that router's stream; the other router's request goes on."""
    bench.link.bring_up()
    for router in (1, 2):
        bench.inbox.put(SessionOpened(router=router))
        bench.inbox.put(RoutedSubmit(router=router, submit=_submit(request_id=f"r{router}", max_tokens=9)))
    bench.inbox.put(RoutedSubmit(router=1, submit=_submit(request_id="again")))
    bench.inbox.put(SessionClosed(router=1))
    bench.turn(20)
    assert [router for router, _ in bench.hub.refused] == [1]
    assert len(bench.bodies(2, Finished)) == 1
    assert bench.bodies(1, Finished) == []


def test_an_executor_that_breaks_the_protocol_is_given_up(bench):
    """A result that the core cannot accept costs the session, not the scheduler."""
    bench.link.bring_up()
    bench.inbox.put(SessionOpened(router=1))
    bench.inbox.put(RoutedSubmit(router=1, submit=_submit(max_tokens=50)))
    bench.turn(3)
    bench.link.events.clear()
    bench.link.events.append(
        StepResult(
            plan=len(bench.link.plans), slots=int32_column([7]), counts=int32_column([1]), tokens=int32_column([1])
        )
    )
    bench.turn(1)
    assert len(bench.link.given_up) == 1
    bench.link.bring_up(session=2)
    bench.turn(60)
    assert len(bench.bodies(1, Finished)) == 1


def test_an_executor_that_takes_no_plan_is_given_up(bench):
    """A full or broken line is a lost executor; its sequences wait for the next."""
    bench.link.takes_plans = False
    bench.link.bring_up()
    bench.inbox.put(SessionOpened(router=1))
    bench.inbox.put(RoutedSubmit(router=1, submit=_submit()))
    bench.turn(2)
    assert bench.link.given_up == ["it takes no plan"]
    bench.link.takes_plans = True
    bench.link.bring_up(session=2)
    bench.turn(10)
    assert len(bench.bodies(1, Finished)) == 1


def test_deadlines_are_read_when_nothing_else_happens(bench):
    """Without an executor a request ends when its time is over, by a tick."""
    bench.inbox.put(SessionOpened(router=1))
    submit = Submit(
        handle=1,
        request_id="r",
        token_ids=int32_column([1]),
        prompt_length=1,
        chain_root=bytes(16),
        sampling=Sampling(),
        time_left_us=5_000,
    )
    bench.inbox.put(RoutedSubmit(router=1, submit=submit))
    bench.turn(4)
    assert bench.bodies(1, Rejected) == []
    bench.turn(4)
    assert len(bench.bodies(1, Rejected)) == 1


def test_load_is_told_each_quarter_second_and_when_progress_changes(bench):
    """A steady state is told four times a second; silence of the executor at once."""
    bench.link.bring_up()
    bench.turn(1001)
    assert 4 <= len(bench.hub.loads) <= 6
    told = len(bench.hub.loads)
    bench.link.silent = True
    bench.turn(1)
    assert len(bench.hub.loads) == told + 1
    assert bench.hub.loads[-1].making_progress is False
    assert LOAD_INTERVAL_US == 250_000


def test_questions_are_answered(bench):
    """Explain and CancelById get their answers from the core."""
    bench.inbox.put(SessionOpened(router=1))
    bench.inbox.put(RoutedSubmit(router=1, submit=_submit(request_id="r")))
    explained, cancelled = [], []
    bench.inbox.put(Explain(ExplainByIdRequest(tenant="", request_id="r"), explained.append))
    for _ in range(2):
        bench.inbox.put(CancelById(CancelByIdRequest(tenant="", request_id="r"), cancelled.append))
    bench.turn(1)
    assert len(explained[0].sequences) == 1
    assert [answer.cancelled for answer in cancelled] == [1, 0]
    assert len(bench.bodies(1, Finished)) == 1


def test_the_books_are_checked_when_work_ends(bench):
    """Each time the last sequence has ended, and only then, the core proves its integrity."""
    checks = []
    bench.core.check_integrity = lambda: checks.append(bench.now_us)
    bench.link.bring_up()
    bench.inbox.put(SessionOpened(router=1))
    bench.inbox.put(RoutedSubmit(router=1, submit=_submit()))
    bench.turn(3)
    assert checks == []
    bench.turn(20)
    assert len(checks) == 1


def test_a_drain_ends_when_the_last_sequence_has(bench):
    """After BeginDrain the hub is told, newcomers are refused, and the loop returns when all is done."""
    bench.link.bring_up()
    bench.inbox.put(SessionOpened(router=1))
    bench.inbox.put(RoutedSubmit(router=1, submit=_submit(handle=1, request_id="a")))
    bench.turn(2)
    bench.inbox.put(BeginDrain())
    bench.inbox.put(RoutedSubmit(router=1, submit=_submit(handle=2, request_id="b")))
    bench.turns_left = 50
    assert bench.service.run() == ExitCode.OK
    assert bench.hub.draining
    assert [body.handle for body in bench.bodies(1, Finished)] == [1]
    assert [body.handle for body in bench.bodies(1, Rejected)] == [2]


def test_a_drain_does_not_wait_forever(bench):
    """Without an executor to finish the work, the drain timeout ends the loop."""
    bench.inbox.put(SessionOpened(router=1))
    bench.inbox.put(RoutedSubmit(router=1, submit=_submit()))
    bench.turn(1)
    bench.inbox.put(BeginDrain())
    bench.turns_left = 2000
    assert bench.service.run() == ExitCode.OK
    assert 1_000_000 <= bench.now_us <= 1_010_000
