"""Faults at a scheduler and its executor: every stream ends with the tokens of an unfaulted run."""

import asyncio
import dataclasses
import secrets
import signal
import time

import pytest
import zmq

from services.executor.simulated import SimulatedExecutor
from services.runtime.lifecycle import REPEAT_S, ExitCode
from services.scheduler.recorder import replay
from services.wire import codec
from services.wire.execution import (
    ExecutorHeartbeat,
    ExecutorHello,
    FromExecutor,
    Reset,
    StepResult,
    ToExecutor,
    main_identity,
)
from services.wire.message import int32_column
from services.wire.scheduling import FinishCause, RejectReason
from tests.integration.scheduler_harness import (
    WAIT_S,
    exit_code,
    health,
    random_answer,
    submit,
    until_health,
)

_COUNT = 300


async def _start_streams(router, num_streams=5, max_tokens=_COUNT):
    for handle in range(1, num_streams + 1):
        await router.send(submit(handle, prompt=b"stream %d" % handle, max_tokens=max_tokens))
    await router.until(lambda: all(len(router.tokens[handle]) > 5 for handle in range(1, num_streams + 1)))


async def _check_streams(router, num_streams=5, max_tokens=_COUNT):
    await router.until(lambda: len(router.ends) == num_streams)
    for handle in range(1, num_streams + 1):
        assert router.ends[handle].cause is FinishCause.LENGTH
        assert router.tokens[handle] == random_answer(b"stream %d" % handle, handle, max_tokens)


async def test_kill_9_of_the_executor_is_seen_at_once_and_tokens_go_on(cluster, new_router):
    """Twice in mid-stream the executor is killed and another started: streams pause, then end exactly right."""
    cluster.start_scheduler(record=cluster.directory / "events.log")
    executor = cluster.start_executor(simulated_step_fixed_us=3000)
    router = await new_router()
    await router.ready()
    await _start_streams(router)
    for _ in range(2):
        executor.kill()
        executor.wait()
        hellos = len(router.hellos)
        executor = cluster.start_executor(simulated_step_fixed_us=3000)
        await router.until(lambda hellos=hellos: len(router.hellos) > hellos)
        seen = len(router.tokens[1])
        await router.until(lambda seen=seen: len(router.tokens[1]) > min(seen + 5, _COUNT - 1))
    await _check_streams(router)
    assert cluster.log(cluster.processes[0]).count("its process has ended") == 2


async def test_a_recorded_run_replays(cluster, new_router):
    """The event log of a run with a lost executor and a lost router replays byte for byte."""
    log = cluster.directory / "events.log"
    scheduler = cluster.start_scheduler(record=log)
    executor = cluster.start_executor(simulated_step_fixed_us=3000)
    router, leaver = await new_router(), await new_router()
    await router.ready()
    await leaver.send(submit(1, max_tokens=2000))
    await _start_streams(router, max_tokens=60)
    await leaver.close()
    executor.kill()
    executor.wait()
    cluster.start_executor()
    await _check_streams(router, max_tokens=60)
    scheduler.terminate()
    assert await exit_code(scheduler) == ExitCode.OK
    result = replay(log)
    assert result.num_plans > 60
    assert result.num_outputs > 60


async def test_a_stopped_executor_costs_readiness_then_its_life(cluster, new_router):
    """SIGSTOP: readiness falls after the heartbeat timeout, the process is killed after the lost timeout, a new one goes on."""
    cluster.start_scheduler(executor_heartbeat_timeout_s=0.6, executor_lost_timeout_s=1.5)
    executor = cluster.start_executor(simulated_step_fixed_us=3000)
    router = await new_router()
    await router.ready()
    await until_health(router.channel, wanted=True)
    await _start_streams(router)
    executor.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    await until_health(router.channel, wanted=False, timeout_s=3.0)
    assert executor.poll() is None, "not ready comes before killed"
    assert await health(router.channel, "liveness")
    assert router.loads[-1].making_progress is False
    assert await exit_code(executor, 7.5) == -signal.SIGKILL
    assert time.monotonic() - stopped > 1.0
    cluster.start_executor()
    await until_health(router.channel, wanted=True)
    await _check_streams(router)


async def test_a_hung_step_costs_the_executor_its_life(cluster, new_router):
    """An executor that beats but does not answer is killed when its step is older than its limit."""
    cluster.start_scheduler()
    executor = cluster.start_executor(simulated_step_fixed_us=60_000_000)
    router = await new_router()
    await router.ready()
    await router.send(submit(1, max_tokens=10))
    await until_health(router.channel, wanted=False)
    assert await exit_code(executor, 30) == -signal.SIGKILL
    assert "older than its limit" in cluster.log(cluster.processes[0])


async def test_a_step_that_hangs_after_fast_ones_costs_readiness_within_seconds(cluster, new_router):
    """After decodes of 50 ms an executor that beats but answers no more is late after 2 s, not after minutes."""
    cluster.start_scheduler()
    router = await new_router()
    with zmq.Context() as context, context.socket(zmq.DEALER) as main:
        main.setsockopt(zmq.LINGER, 0)
        main.setsockopt(zmq.IDENTITY, main_identity(9))
        main.connect(cluster.executor_endpoint)
        hangs = asyncio.Event()
        playing = asyncio.create_task(_play_executor(main, hangs))
        await router.ready()
        await router.send(submit(1, prompt=b"x", max_tokens=1000))
        await router.until(lambda: len(router.tokens[1]) > 20)
        await until_health(router.channel, wanted=True)
        hangs.set()
        assert await until_health(router.channel, wanted=False, timeout_s=10.0) > 1.5
        assert router.loads[-1].predicted_step_us < 200_000
        assert 1 not in router.ends
        playing.cancel()


async def _play_executor(main, hangs):
    """Steps of 50 ms until `hangs` is set, heartbeats for ever."""
    executor, session = SimulatedExecutor(), 0
    identity = {"instance": 9, "pid": 0, "pid_namespace": 0}
    main.send(codec.encode(FromExecutor(session=0, body=ExecutorHello(**identity))))
    while True:
        main.send(codec.encode(FromExecutor(session=session, body=ExecutorHeartbeat(**identity))))
        if not await asyncio.to_thread(main.poll, 200):
            continue
        frame = codec.decode(ToExecutor, main.recv())
        if isinstance(frame.body, Reset):
            session, answer = frame.session, executor.reset(frame.session, frame.body)
        elif hangs.is_set():
            continue
        else:
            await asyncio.sleep(0.05)
            answer = dataclasses.replace(executor.step(frame.body), step_us=50_000)
        main.send(codec.encode(FromExecutor(session=session, body=answer)))


async def test_each_scheduler_process_keeps_an_event_log_of_its_own(cluster, new_router):
    """After kill -9 the successor leaves the log of the incident alone, and that holds all that happened."""
    log = cluster.directory / "events.log"
    cluster.start_executor(simulated_step_fixed_us=3000)
    for _ in range(3):
        scheduler = cluster.start_scheduler(record=log)
        router = await new_router()
        await router.ready()
        await _start_streams(router, num_streams=1, max_tokens=2000)
        scheduler.kill()
        scheduler.wait()
    for path in (log, log.with_name("events.log.1"), log.with_name("events.log.2")):
        assert replay(path).num_plans > 5


async def test_a_new_scheduler_takes_over_a_living_executor(cluster, new_router):
    """After kill -9 of the scheduler its successor gives the same executor a new session, and serves."""
    scheduler = cluster.start_scheduler()
    executor = cluster.start_executor(simulated_step_fixed_us=3000)
    router = await new_router()
    await router.ready()
    await _start_streams(router)
    scheduler.kill()
    scheduler.wait()
    cluster.start_scheduler()
    successor = await new_router()
    await successor.ready()
    await _start_streams(successor)
    await _check_streams(successor)
    assert executor.poll() is None
    executor.kill()
    executor.wait()
    await successor.until(lambda: not successor.loads[-1].making_progress)
    assert "its process has ended" in cluster.log(cluster.processes[-1])


async def test_a_second_executor_waits_for_the_end_of_the_first(cluster, new_router):
    """A second executor at the same endpoint disturbs nobody, and takes over when the first is killed: streams go on."""
    scheduler = cluster.start_scheduler()
    first = cluster.start_executor(simulated_step_fixed_us=3000)
    router = await new_router()
    await router.ready()
    await _start_streams(router)
    second = cluster.start_executor(simulated_step_fixed_us=3000)
    async with asyncio.timeout(WAIT_S):
        while "while the one in session lives" not in cluster.log(scheduler):
            await asyncio.sleep(0.02)
    assert first.poll() is None
    assert len([hello for hello in router.hellos if hello.executor_ready]) == 1
    await router.send(submit(6, prompt=b"stream 6", max_tokens=_COUNT))
    await router.until(lambda: len(router.tokens[6]) > 5)
    first.kill()
    await _check_streams(router, num_streams=6)
    assert second.poll() is None


async def test_garbage_at_the_executor_socket_changes_nothing(cluster, new_router):
    """Frames of every wrong kind arrive while a stream runs: each is dropped, no token changes, the books balance."""
    scheduler = cluster.start_scheduler()
    executor = cluster.start_executor(simulated_step_fixed_us=3000)
    router = await new_router()
    await router.ready()
    await _start_streams(router)
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.connect(cluster.executor_endpoint)
        for _ in range(50):
            stranger.send(secrets.token_bytes(200))
            stranger.send(b"")
            stranger.send_multipart([b"x"] * 3000)
            stranger.send(codec.encode(FromExecutor(session=1, body=StepResult(plan=1, stopped=int32_column([5])))))
            stranger.send(codec.encode(FromExecutor(protocol=77, session=0, body=ExecutorHeartbeat(instance=3))))
            stranger.send(codec.encode(FromExecutor(session=0, body=ExecutorHeartbeat(instance=3))))
            loading = ExecutorHello(instance=4, pid=1, pid_namespace=1, start_phase="loading")
            stranger.send(codec.encode(FromExecutor(session=0, body=loading)))
            await asyncio.sleep(0.002)
        await _check_streams(router)
    assert scheduler.poll() is None
    assert executor.poll() is None
    assert "frame dropped" in cluster.log(scheduler)


async def test_an_executor_that_answers_what_was_not_asked_is_lost(cluster, new_router):
    """A result of a plan that is not due ends the session: the executor of that session is given up."""
    cluster.start_scheduler()
    router = await new_router()
    with zmq.Context() as context, context.socket(zmq.DEALER) as liar:
        liar.setsockopt(zmq.LINGER, 0)
        liar.setsockopt(zmq.IDENTITY, main_identity(9))
        liar.connect(cluster.executor_endpoint)
        liar.send(codec.encode(FromExecutor(session=0, body=ExecutorHello(instance=9, pid=0, pid_namespace=0))))
        assert await asyncio.to_thread(liar.poll, 10_000)
        reset = codec.decode(ToExecutor, liar.recv())
        capacity = SimulatedExecutor().reset(reset.session, reset.body)
        liar.send(codec.encode(FromExecutor(session=reset.session, body=capacity)))
        await router.ready()
        liar.send(codec.encode(FromExecutor(session=reset.session, body=StepResult(plan=5))))
        liar.send(codec.encode(FromExecutor(session=0, body=ExecutorHello(instance=9, pid=0, pid_namespace=0))))
        assert await asyncio.to_thread(liar.poll, 10_000)
        again = codec.decode(ToExecutor, liar.recv())
        assert again.session != reset.session
    assert "was not due" in cluster.log(cluster.processes[0])


async def test_no_executor_at_all_is_an_answer_not_a_hang(cluster, new_router):
    """A request that no executor comes for ends with its reason after the grace."""
    cluster.start_scheduler(executor_grace_us=500_000)
    router = await new_router()
    await router.send(submit(1))
    await router.until(lambda: 1 in router.ends, timeout_s=3.0)
    assert router.ends[1].reason is RejectReason.EXECUTOR_UNAVAILABLE


async def test_a_poisonous_request_is_found_and_its_neighbours_live(cluster, new_router):
    """A request whose 40th token kills the executor ends after three losses; its neighbours get every token."""
    cluster.start_scheduler()
    running = [True]

    async def supervise():
        while running[0]:
            executor = cluster.start_executor(hooks=True, test_kill_token=ord("!"), simulated_step_fixed_us=3000)
            while running[0] and executor.poll() is None:
                await asyncio.sleep(0.02)

    supervisor = asyncio.create_task(supervise())
    router = await new_router()
    await router.ready()
    await router.send(submit(9, prompt=b"poison!", max_tokens=100))
    await _start_streams(router, num_streams=3)
    await router.until(lambda: 9 in router.ends, timeout_s=60)
    await router.until(lambda: len(router.ends) == 4, timeout_s=60)
    running[0] = False
    await supervisor
    assert router.ends.pop(9).reason is RejectReason.POISONOUS
    await _check_streams(router, num_streams=3)


async def test_sigterm_drains(cluster, new_router):
    """SIGTERM: not ready at once, newcomers are refused, live streams finish, exit 0."""
    scheduler = cluster.start_scheduler()
    cluster.start_executor(simulated_step_fixed_us=3000)
    router = await new_router()
    await router.ready()
    await until_health(router.channel, wanted=True)
    await _start_streams(router)
    scheduler.terminate()
    await until_health(router.channel, wanted=False, timeout_s=1.0)
    await router.until(lambda: router.loads and router.loads[-1].draining)
    await router.send(submit(99))
    await router.until(lambda: 99 in router.ends)
    assert router.ends.pop(99).reason is RejectReason.DRAINING
    await _check_streams(router)
    assert await exit_code(scheduler) == ExitCode.OK


@pytest.mark.parametrize(("second", "wanted"), [(True, ExitCode.FORCED), (False, ExitCode.OK)])
async def test_a_drain_ends(cluster, new_router, second, wanted):
    """A second SIGTERM forces the end; without one the drain timeout does."""
    scheduler = cluster.start_scheduler(drain_timeout_s=60.0 if second else 0.3)
    cluster.start_executor()
    router = await new_router()
    await router.ready()
    await _start_streams(router, num_streams=1, max_tokens=8000)
    scheduler.terminate()
    if second:
        await router.until(lambda: router.loads and router.loads[-1].draining)
        await asyncio.sleep(REPEAT_S)  # sooner it would be the same request
        scheduler.terminate()
    assert await exit_code(scheduler) == wanted


async def test_settings_that_cannot_work_end_with_code_2_and_the_reason(cluster):
    """A public address without leave, tcp without keys, and a place that is not there are named and refused."""
    refusals = [
        (cluster.start_scheduler(listen="0.0.0.0:0"), "allow_public"),
        (cluster.start_scheduler(executor_endpoint="tcp://127.0.0.1:7777"), "CURVE"),
        (cluster.start_scheduler(executor_endpoint=f"ipc://{cluster.directory}/none/x"), "cannot listen"),
        (cluster.start_scheduler(listen=f"unix:{cluster.directory}/none/s.sock"), "there is no folder"),
        (cluster.start_scheduler(record=cluster.directory / "none" / "log"), "event log"),
        (cluster.start_executor(scheduler_endpoint="tcp://127.0.0.1:7777"), "CURVE"),
        (cluster.start_executor(curve_key_file=cluster.directory / "none"), "key file"),
    ]
    for process, reason in refusals:
        assert await exit_code(process) == ExitCode.BAD_SETTING
        log = cluster.log(process)
        assert reason in log
        assert len(log.splitlines()) == 1, "one plain line, none of a library's own"
