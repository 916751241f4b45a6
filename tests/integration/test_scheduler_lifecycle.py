"""A scheduler process from its settings to its end: what it writes down, who takes over from it, how it drains."""

import asyncio

import pytest

from services.runtime.lifecycle import REPEAT_S, ExitCode
from services.scheduler.recorder import replay
from services.wire.scheduling import RejectReason
from tests.integration.scheduler_harness import (
    check_streams,
    exit_code,
    start_streams,
    stream_through,
    submit,
    until_health,
)


async def test_a_recorded_run_replays(cluster, new_router):
    """The event log of a run with a lost executor and a lost router replays byte for byte."""
    log = cluster.directory / "events.log"
    scheduler = cluster.start_scheduler(record=log)
    executor = cluster.start_executor(simulated_step_fixed_us=3000)
    router, leaver = await new_router(), await new_router()
    await router.ready()
    await leaver.send(submit(1, max_tokens=2000))
    await start_streams(router, max_tokens=60)
    await leaver.close()
    executor.kill()
    executor.wait()
    cluster.start_executor()
    await check_streams(router, max_tokens=60)
    scheduler.terminate()
    assert await exit_code(scheduler) == ExitCode.OK
    result = replay(log)
    assert result.num_plans > 60
    assert result.num_outputs > 60


async def test_each_scheduler_process_keeps_an_event_log_of_its_own(cluster, new_router):
    """After kill -9 the successor leaves the log of the incident alone, and that holds all that happened."""
    log = cluster.directory / "events.log"
    cluster.start_executor(simulated_step_fixed_us=3000)
    for _ in range(3):
        scheduler = cluster.start_scheduler(record=log)
        router = await new_router()
        await router.ready()
        await start_streams(router, num_streams=1, max_tokens=2000)
        scheduler.kill()
        scheduler.wait()
    for path in (log, log.with_name("events.log.1"), log.with_name("events.log.2")):
        assert replay(path).num_plans > 5


async def test_a_new_scheduler_takes_over_a_living_executor(cluster, new_router):
    """After kill -9 of the scheduler its successor gives the same executor a new session, and serves."""
    scheduler, executor, _ = await stream_through(cluster, new_router)
    scheduler.kill()
    scheduler.wait()
    cluster.start_scheduler()
    successor = await new_router()
    await successor.ready()
    await start_streams(successor)
    await check_streams(successor)
    assert executor.poll() is None
    executor.kill()
    executor.wait()
    await successor.until(lambda: not successor.loads[-1].making_progress)
    assert "its process has ended" in cluster.log(cluster.processes[-1])


async def test_sigterm_drains(cluster, new_router):
    """SIGTERM: not ready at once, newcomers are refused, live streams finish, exit 0."""
    scheduler = cluster.start_scheduler()
    cluster.start_executor(simulated_step_fixed_us=3000)
    router = await new_router()
    await router.ready()
    await until_health(router.channel, wanted=True)
    await start_streams(router)
    scheduler.terminate()
    await until_health(router.channel, wanted=False, timeout_s=1.0)
    await router.until(lambda: router.loads and router.loads[-1].draining)
    await router.send(submit(99))
    await router.until(lambda: 99 in router.ends)
    assert router.ends.pop(99).reason is RejectReason.DRAINING
    await check_streams(router)
    assert await exit_code(scheduler) == ExitCode.OK


@pytest.mark.parametrize(("second", "wanted"), [(True, ExitCode.FORCED), (False, ExitCode.OK)])
async def test_a_drain_ends(cluster, new_router, second, wanted):
    """A second SIGTERM forces the end; without one the drain timeout does."""
    scheduler = cluster.start_scheduler(drain_timeout_s=60.0 if second else 0.3)
    cluster.start_executor()
    router = await new_router()
    await router.ready()
    await start_streams(router, num_streams=1, max_tokens=8000)
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
