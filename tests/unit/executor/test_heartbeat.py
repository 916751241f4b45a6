"""The heartbeat: what it says, and when it ends the process."""

import contextlib

import pytest
import zmq

from services.executor.heartbeat import WATCHDOG_GRACE_MS, Heart, Identity, Pulse, Running
from services.executor.worker import decode_to_executor
from services.runtime.lifecycle import ExitCode
from services.runtime.zeromq import ClientChannel, ServerChannel
from services.wire import codec
from services.wire.execution import FromExecutor

_IDENTITY = Identity(instance=5, pid=77, pid_namespace=9)


def _heart(pulse, ends):
    return Heart(pulse, _IDENTITY, lambda: None, end=ends.append)


def test_an_idle_heartbeat_names_the_process_and_its_phase():
    """Without a step running, plan and time are 0; who it is and its phase are always told."""
    pulse = Pulse()
    beat = _heart(pulse, []).beat(100.0)
    assert beat.session == 0
    assert (beat.body.running_plan, beat.body.running_ms, beat.body.start_phase) == (0, 0, "loading")
    assert (beat.body.instance, beat.body.pid, beat.body.pid_namespace) == (5, 77, 9)


def test_a_running_step_is_timed():
    """The heartbeat says which plan runs and for how long."""
    pulse = Pulse()
    pulse.running, pulse.session, pulse.phase = Running(plan=3, since_s=10.0, time_limit_ms=1000), 8, "ready"
    beat = _heart(pulse, []).beat(10.5)
    assert (beat.session, beat.body.running_plan, beat.body.running_ms) == (8, 3, 500)


@pytest.mark.parametrize(("over_ms", "ended"), [(-10, []), (10, [ExitCode.HUNG])])
def test_a_hung_step_ends_the_process(over_ms, ended):
    """A step that is five seconds over its limit ends the process, one that is not does not."""
    pulse, ends = Pulse(), []
    pulse.running = Running(plan=3, since_s=0.0, time_limit_ms=1000)
    _heart(pulse, ends).beat((1000 + WATCHDOG_GRACE_MS + over_ms) / 1000)
    assert ends == ended


def test_a_step_without_a_limit_may_take_forever():
    """Limit 0 is none."""
    pulse, ends = Pulse(), []
    pulse.running = Running(plan=3, since_s=0.0, time_limit_ms=0)
    _heart(pulse, ends).beat(1e6)
    assert ends == []


def test_the_thread_beats_until_stopped(tmp_path):
    """Over a real socket beats arrive one after another, and stop ends the thread."""
    endpoint = f"ipc://{tmp_path}/s"
    with (
        zmq.Context() as context,
        contextlib.closing(
            ServerChannel(context, endpoint, encode=codec.encode, decode=lambda data: codec.decode(FromExecutor, data))
        ) as server,
    ):
        heart = Heart(
            Pulse(),
            _IDENTITY,
            lambda: ClientChannel(context, endpoint, identity=b"H", encode=codec.encode, decode=decode_to_executor),
        )
        heart.start()
        beats = []
        while len(beats) < 2:
            assert server.socket.poll(10_000)
            beats.append(server.receive())
        heart.stop()
        assert not heart.is_alive()
        assert {(peer, frame.body.instance) for peer, frame in beats} == {(b"H", 5)}
