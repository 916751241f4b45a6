"""Faults of an executor, seen from a router: whatever it does, every stream ends with the tokens of an unfaulted run."""

import asyncio
import contextlib
import dataclasses
import secrets
import signal
import time

import pytest
import zmq

from services.executor.simulated import SimulatedExecutor
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
from services.wire.scheduling import RejectReason
from tests.integration.scheduler_harness import (
    NUM_TOKENS,
    WAIT_S,
    check_streams,
    exit_code,
    health,
    start_streams,
    stream_through,
    submit,
    until_health,
)

PLAYED = {"instance": 9, "pid": 0, "pid_namespace": 0}


@contextlib.contextmanager
def played_executor(cluster):
    """The main socket of an executor that the test plays; it has said hello."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as main:
        main.setsockopt(zmq.LINGER, 0)
        main.setsockopt(zmq.IDENTITY, main_identity(PLAYED["instance"]))
        main.connect(cluster.executor_endpoint)
        main.send(codec.encode(FromExecutor(session=0, body=ExecutorHello(**PLAYED))))
        yield main


async def test_kill_9_of_the_executor_is_seen_at_once_and_tokens_go_on(cluster, new_router):
    """Twice in mid-stream the executor is killed and another started: streams pause, then end exactly right."""
    _, executor, router = await stream_through(cluster, new_router, record=cluster.directory / "events.log")
    for _ in range(2):
        executor.kill()
        executor.wait()
        hellos = len(router.hellos)
        executor = cluster.start_executor(simulated_step_fixed_us=3000)
        await router.until(lambda hellos=hellos: len(router.hellos) > hellos)
        seen = len(router.tokens[1])
        await router.until(lambda seen=seen: len(router.tokens[1]) > min(seen + 5, NUM_TOKENS - 1))
    await check_streams(router)
    log = cluster.log(cluster.processes[0])
    ends = ("its process has ended", "it is dead, and another executor has come")  # the second on a busy machine
    assert sum(log.count(end) for end in ends) == 2


async def test_a_stopped_executor_costs_readiness_then_its_life(cluster, new_router):
    """SIGSTOP: readiness falls after the heartbeat timeout, the process is killed after the lost timeout, a new one goes on."""
    cluster.start_scheduler(executor_heartbeat_timeout_s=0.6, executor_lost_timeout_s=1.5)
    executor = cluster.start_executor(simulated_step_fixed_us=3000)
    router = await new_router()
    await router.ready()
    await until_health(router.channel, wanted=True)
    await start_streams(router)
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
    await check_streams(router)


@pytest.mark.parametrize("limit_s", [3, pytest.param(None, marks=pytest.mark.deep)])
async def test_a_hung_step_costs_the_executor_its_life(cluster, new_router, limit_s):
    """An executor that beats but does not answer is killed when its step is older than its limit, the product's or a shorter one."""
    cluster.start_scheduler(limit_s)
    executor = cluster.start_executor(simulated_step_fixed_us=60_000_000)
    router = await new_router()
    await router.ready()
    await router.send(submit(1, max_tokens=10))
    await until_health(router.channel, wanted=False)
    assert await exit_code(executor, 30) == -signal.SIGKILL
    assert f"older than its limit of {limit_s or 10}000 ms" in cluster.log(cluster.processes[0])


async def test_a_step_that_hangs_after_fast_ones_costs_readiness_within_seconds(cluster, new_router):
    """After decodes of 50 ms an executor that beats but answers no more is late after 2 s, not after minutes."""
    cluster.start_scheduler()
    router = await new_router()
    with played_executor(cluster) as main:
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
    while True:
        main.send(codec.encode(FromExecutor(session=session, body=ExecutorHeartbeat(**PLAYED))))
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


async def test_a_second_executor_waits_for_the_end_of_the_first(cluster, new_router):
    """A second executor at the same endpoint disturbs nobody, and takes over when the first is killed: streams go on."""
    scheduler, first, router = await stream_through(cluster, new_router)
    second = cluster.start_executor(simulated_step_fixed_us=3000)
    async with asyncio.timeout(WAIT_S):
        while "while the one in session lives" not in cluster.log(scheduler):
            await asyncio.sleep(0.02)
    assert first.poll() is None
    assert len([hello for hello in router.hellos if hello.executor_ready]) == 1
    await router.send(submit(6, prompt=b"stream 6", max_tokens=NUM_TOKENS))
    await router.until(lambda: len(router.tokens[6]) > 5)
    first.kill()
    await check_streams(router, num_streams=6)
    assert second.poll() is None


async def test_garbage_at_the_executor_socket_changes_nothing(cluster, new_router):
    """Frames of every wrong kind arrive while a stream runs: each is dropped, no token changes, the books balance."""
    scheduler, executor, router = await stream_through(cluster, new_router)
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
        await check_streams(router)
    assert scheduler.poll() is None
    assert executor.poll() is None
    assert "frame dropped" in cluster.log(scheduler)


async def test_an_executor_that_answers_what_was_not_asked_is_lost(cluster, new_router):
    """A result of a plan that is not due ends the session: the executor of that session is given up."""
    cluster.start_scheduler()
    router = await new_router()
    with played_executor(cluster) as liar:
        assert await asyncio.to_thread(liar.poll, 10_000)
        reset = codec.decode(ToExecutor, liar.recv())
        capacity = SimulatedExecutor().reset(reset.session, reset.body)
        liar.send(codec.encode(FromExecutor(session=reset.session, body=capacity)))
        await router.ready()
        liar.send(codec.encode(FromExecutor(session=reset.session, body=StepResult(plan=5))))
        liar.send(codec.encode(FromExecutor(session=0, body=ExecutorHello(**PLAYED))))
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
    await start_streams(router, num_streams=3)
    await router.until(lambda: 9 in router.ends, timeout_s=60)
    await router.until(lambda: len(router.ends) == 4, timeout_s=60)
    running[0] = False
    await supervisor
    assert router.ends.pop(9).reason is RejectReason.POISONOUS
    await check_streams(router, num_streams=3)
