"""A real executor process, driven by a test in the scheduler's place."""

import contextlib
import os
import signal
import time

import pytest
import zmq

from services.runtime.lifecycle import ExitCode, pid_namespace
from services.runtime.zeromq import ServerChannel
from services.wire import codec
from services.wire.execution import (
    AdmittedSlot,
    Capacity,
    ExecutorHeartbeat,
    ExecutorHello,
    FromExecutor,
    Reset,
    Sampling,
    StepPlan,
    StepResult,
    ToExecutor,
    heartbeat_identity,
    main_identity,
)
from services.wire.message import int32_column
from tests.integration.scheduler_harness import WAIT_S

_RESET = Reset(max_slots=8, max_step_tokens=64)
_ADMIT = AdmittedSlot(
    slot=0,
    token_ids=int32_column(list(b"hello")),
    prompt_length=5,
    token_limit=100,
    blocks=int32_column(range(7)),
    sampling=Sampling(ignore_eos=True),
)


class FakeScheduler:
    """The bound side of the link."""

    def __init__(self, endpoint):
        self._context = zmq.Context()
        self.channel = ServerChannel(
            self._context, endpoint, encode=codec.encode, decode=lambda data: codec.decode(FromExecutor, data)
        )
        self.main = b""

    def wait_for(self, kind, condition=lambda _frame: True):
        """The next frame with such a body; others are passed over."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            received = self.channel.receive()
            if received is None:
                self.channel.socket.poll(50)
            elif isinstance(received[1].body, kind) and condition(received[1]):
                if kind is ExecutorHello:
                    self.main = received[0]
                return received
        raise AssertionError(f"no {kind.__name__} came")

    def send(self, session, body):
        assert self.channel.send(self.main, ToExecutor(session=session, body=body))

    def begin(self, session=5):
        """Meets the executor and starts a session; returns its capacity."""
        self.wait_for(ExecutorHello)
        self.send(session, _RESET)
        return self.wait_for(Capacity)[1]

    def close(self):
        self.channel.close()
        self._context.term()


@pytest.fixture
def scheduler(cluster):
    with contextlib.closing(FakeScheduler(cluster.executor_endpoint)) as scheduler:
        yield scheduler


def test_hello_heartbeats_capacity_and_results(cluster, scheduler):
    """The process introduces itself by pid, beats from a socket of its own, and answers in the session it is given."""
    process = cluster.start_executor()
    peer, frame = scheduler.wait_for(ExecutorHello)
    hello = frame.body
    assert (hello.pid, hello.pid_namespace, hello.start_phase) == (process.pid, pid_namespace(), "ready")
    assert peer == main_identity(hello.instance)
    beat_peer, beat = scheduler.wait_for(ExecutorHeartbeat)
    assert beat_peer == heartbeat_identity(hello.instance)
    assert (beat.body.instance, beat.body.pid, beat.body.running_plan) == (hello.instance, process.pid, 0)
    scheduler.send(5, _RESET)
    capacity = scheduler.wait_for(Capacity)[1]
    assert (capacity.session, capacity.body.max_slots) == (5, 8)
    plan = StepPlan(plan=1, admitted=(_ADMIT,), chunk_slots=int32_column([0]), chunk_counts=int32_column([5]))
    scheduler.send(5, plan)
    result = scheduler.wait_for(StepResult)[1]
    assert (result.session, result.body.plan, result.body.slots.tolist()) == (5, 1, [0])
    assert result.body.step_us >= 1000


def test_the_heartbeat_tells_of_a_long_step(cluster, scheduler):
    """While a step runs, heartbeats name its plan and how long it has run."""
    cluster.start_executor(simulated_step_fixed_us=1_500_000)
    scheduler.begin()
    scheduler.send(5, StepPlan(plan=1))
    beat = scheduler.wait_for(ExecutorHeartbeat, lambda frame: frame.body.running_ms > 300)[1]
    assert beat.body.running_plan == 1
    scheduler.wait_for(StepResult)


def test_garbage_and_old_sessions_are_passed_over(cluster, scheduler):
    """Garbage, many tiny frames, another protocol and plans of another session change nothing."""
    cluster.start_executor()
    scheduler.begin()
    socket = scheduler.channel.socket
    for _ in range(20):
        socket.send_multipart([scheduler.main, os.urandom(100)])
        socket.send_multipart([scheduler.main, *[b"x"] * 2000])
        socket.send_multipart([scheduler.main, codec.encode(ToExecutor(protocol=9, session=5, body=_RESET))])
        scheduler.send(4, StepPlan(plan=7))
        time.sleep(0.01)
    scheduler.send(5, StepPlan(plan=1))
    assert scheduler.wait_for(StepResult)[1].body.plan == 1


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        (StepPlan(plan=2), ExitCode.PROTOCOL),
        (StepPlan(plan=1, released=int32_column([3])), ExitCode.BROKEN),
    ],
    ids=["out of order", "breaks the engine"],
)
def test_what_cannot_go_on_ends_the_process(cluster, scheduler, plan, code):
    """A plan out of order and an engine that breaks each end the process with its own code."""
    cluster.may_break = True
    process = cluster.start_executor()
    scheduler.begin()
    scheduler.send(5, plan)
    assert process.wait(WAIT_S) == code


def test_sigterm_finishes_the_step_in_work(cluster, scheduler):
    """The running step is answered before the process ends with code 0."""
    process = cluster.start_executor(simulated_step_fixed_us=700_000)
    scheduler.begin()
    scheduler.send(5, StepPlan(plan=1))
    scheduler.wait_for(ExecutorHeartbeat, lambda frame: frame.body.running_plan == 1)
    process.terminate()
    assert scheduler.wait_for(StepResult)[1].body.plan == 1
    assert process.wait(WAIT_S) == ExitCode.OK


def test_an_executor_waits_for_its_scheduler(cluster):
    """Started before its scheduler, the process waits, and says hello when there is one."""
    process = cluster.start_executor()
    time.sleep(1.0)
    assert process.poll() is None
    with contextlib.closing(FakeScheduler(cluster.executor_endpoint)) as scheduler:
        assert scheduler.begin().session == 5
        scheduler.send(5, StepPlan(plan=1))
        scheduler.wait_for(StepResult)


@pytest.mark.parametrize("hooks", [True, False])
def test_the_kill_hook_works_only_where_hooks_are_allowed(cluster, scheduler, hooks):
    """With hooks allowed a prompt with the token kills the process at its output 40; otherwise it does nothing."""
    process = cluster.start_executor(hooks=hooks, test_kill_token=ord("h"))
    scheduler.begin()
    prefill = StepPlan(plan=1, admitted=(_ADMIT,), chunk_slots=int32_column([0]), chunk_counts=int32_column([5]))
    scheduler.send(5, prefill)
    scheduler.send(5, StepPlan(plan=2, started=int32_column([0])))
    for number in range(3, 41):
        scheduler.send(5, StepPlan(plan=number))
    scheduler.wait_for(StepResult, lambda frame: frame.body.plan == 40)
    assert process.poll() is None
    scheduler.send(5, StepPlan(plan=41))
    if hooks:
        assert process.wait(WAIT_S) == -signal.SIGKILL
    else:
        assert scheduler.wait_for(StepResult)[1].body.plan == 41
