"""The worker's loop, fed by a scripted channel."""

from collections import deque

import pytest

from services.executor.heartbeat import Identity, Pulse
from services.executor.simulated import SimulatedExecutor
from services.executor.worker import HELLO_INTERVAL_S, Worker, decode_to_executor
from services.runtime.lifecycle import ExitCode
from services.runtime.zeromq import Drops
from services.wire import codec
from services.wire.execution import Capacity, ExecutorHello, Reset, StepPlan, StepResult, ToExecutor
from services.wire.message import InvalidMessage

_RESET = Reset(max_slots=4, max_step_tokens=64)


class FakeChannel:
    """Gives the worker the frames of a script, one a call; at the end stops it."""

    def __init__(self, *frames, reachable=True):
        self.drops = Drops("fake")
        self.sent = []
        self.reachable = reachable
        self.worker = None
        self._frames = deque(frames)

    def send(self, message):
        self.sent.append(message)
        return self.reachable

    def receive(self, _timeout_ms):
        if not self._frames:
            self.worker.stop()
            return None
        return self._frames.popleft()


def _run(channel, engine=None, clock=lambda: 0.0):
    pulse = Pulse()
    worker = Worker(engine or SimulatedExecutor(), channel, pulse, Identity(1, 2, 3), clock=clock)
    channel.worker = worker
    return worker.run(), pulse


def _to(session, body):
    return ToExecutor(session=session, body=body)


def _bodies(channel):
    return [type(frame.body) for frame in channel.sent]


def test_hello_reset_plan():
    """A worker asks for a reset, answers it with its capacity, and each plan with a result, all in the session."""
    channel = FakeChannel(_to(7, _RESET), _to(7, StepPlan(plan=1)), _to(7, StepPlan(plan=2)))
    code, pulse = _run(channel)
    assert code == ExitCode.OK
    assert _bodies(channel) == [ExecutorHello, Capacity, StepResult, StepResult]
    assert [frame.session for frame in channel.sent] == [0, 7, 7, 7]
    assert (pulse.phase, pulse.running.plan) == ("ready", 0)


def test_hello_is_said_again_but_not_in_a_flood():
    """While nobody answers, a hello goes out once in each interval."""
    now = iter([0.0, HELLO_INTERVAL_S / 2, HELLO_INTERVAL_S, HELLO_INTERVAL_S * 1.5])
    channel = FakeChannel(None, None, None)
    _run(channel, clock=lambda: next(now))
    assert _bodies(channel) == [ExecutorHello, ExecutorHello]


def test_a_plan_of_another_session_is_dropped():
    """A frame from before the reset changes nothing and is counted."""
    channel = FakeChannel(_to(7, _RESET), _to(6, StepPlan(plan=1)), _to(7, StepPlan(plan=1)))
    code, _ = _run(channel)
    assert code == ExitCode.OK
    assert _bodies(channel).count(StepResult) == 1
    assert channel.drops.count == 1


@pytest.mark.parametrize("plans", [(2,), (1, 1), (1, 3)])
def test_a_plan_out_of_order_ends_the_process(plans):
    """A number that is skipped or repeated means that the two sides disagree: the worker ends."""
    channel = FakeChannel(_to(7, _RESET), *(_to(7, StepPlan(plan=plan)) for plan in plans))
    assert _run(channel)[0] == ExitCode.PROTOCOL


def test_a_reset_of_the_session_it_has_is_answered_once():
    """A repeated reset does not forget the slots of the session that goes on."""
    channel = FakeChannel(_to(7, _RESET), _to(7, StepPlan(plan=1)), _to(7, _RESET), _to(7, StepPlan(plan=2)))
    code, _ = _run(channel)
    assert code == ExitCode.OK
    assert _bodies(channel).count(Capacity) == 1


def test_a_new_session_begins_at_plan_1():
    """After a second reset the numbers begin again."""
    channel = FakeChannel(_to(7, _RESET), _to(7, StepPlan(plan=1)), _to(8, _RESET), _to(8, StepPlan(plan=1)))
    code, pulse = _run(channel)
    assert code == ExitCode.OK
    assert pulse.session == 8


def test_a_scheduler_that_cannot_be_reached_is_asked_for_a_new_session():
    """When an answer finds no taker the session is over: the worker says hello again."""
    channel = FakeChannel(_to(7, _RESET), None, reachable=False)
    now = iter(range(100))
    _, pulse = _run(channel, clock=lambda: next(now))
    assert pulse.session == 0
    assert _bodies(channel)[-1] is ExecutorHello


def test_an_engine_that_breaks_ends_the_loop():
    """An error of the engine is not answered and not swallowed."""

    class Broken:
        def reset(self, session, reset):
            return SimulatedExecutor().reset(session, reset)

        def step(self, plan):
            raise RuntimeError("device lost")

    with pytest.raises(RuntimeError, match="device lost"):
        _run(FakeChannel(_to(7, _RESET), _to(7, StepPlan(plan=1))), engine=Broken())


def test_the_running_step_is_told_to_the_heartbeat():
    """While the engine computes, the pulse names plan, start and limit."""
    seen = []
    pulse_box = []

    class Watching(SimulatedExecutor):
        def step(self, plan):
            seen.append(pulse_box[0].running)
            return super().step(plan)

    channel = FakeChannel(_to(7, _RESET), _to(7, StepPlan(plan=1, time_limit_ms=50)))
    pulse = Pulse()
    pulse_box.append(pulse)
    channel.worker = Worker(Watching(), channel, pulse, Identity(1, 2, 3), clock=lambda: 4.0)
    channel.worker.run()
    assert (seen[0].plan, seen[0].since_s, seen[0].time_limit_ms) == (1, 4.0, 50)


def test_another_protocol_is_refused_in_words():
    """A frame of another protocol version is no frame, and the log line says which versions met."""
    frame = ToExecutor(protocol=9, session=1, body=_RESET)
    with pytest.raises(InvalidMessage, match="protocol 9"):
        decode_to_executor(codec.encode(frame))
    with pytest.raises(InvalidMessage):
        decode_to_executor(b"\xff\xff")
