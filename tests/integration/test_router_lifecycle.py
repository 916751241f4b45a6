"""A router drains, is told to end, or is killed: what lives finishes or is ended in words, and nothing hangs."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from services.runtime.lifecycle import REPEAT_S
from tests.support.fake_model import letters
from tests.support.fake_scheduler import FakeScheduler, until
from tests.support.router import Client, bench, request, rest_of, router
from tests.support.scripts import alphabet, ends_after, silent

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


async def test_a_draining_router_finishes_what_lives():
    """While draining: not ready, new requests UNAVAILABLE, live streams to their end; then the drain is over."""
    async with bench(drain_timeout_s=20) as made:
        made.scheduler.script = alphabet(gap_s=0.02)
        stream = asyncio.ensure_future(made.client.generate(request(max_tokens=30)))
        await until(lambda: made.scheduler.num_live == 1)
        drain = asyncio.ensure_future(made.server.drain())
        await asyncio.sleep(0)
        assert not made.server.is_ready()
        failure = await made.client.refused(request())
        assert (failure.code, failure.reason) == (UNAVAILABLE, "SHUTTING_DOWN")
        assert not drain.done()
        assert (await stream).text == letters(0, 30)
        await drain


async def test_a_drain_that_takes_too_long_ends_the_rest():
    """What outlives the drain's time ends UNAVAILABLE, with the tokens so far."""
    async with FakeScheduler() as scheduler:
        scheduler.script = ends_after(3)
        async with router(scheduler, drain_timeout_s=0.2) as made:
            call = made.client.stub.Generate(request())
            first = await call.read()
            await made.server.drain()
            closing = asyncio.ensure_future(made.server.__aexit__())
            rest, failure = await rest_of(call)
            assert first.delta.text + rest == "abc"
            assert failure.reason == "SHUTTING_DOWN"
            await closing


PROCESS = """
import sys
from services.router.scheduler_link import SchedulerLink
from services.router.main import main
from services.router.settings import RouterSettings
sys.exit(main(RouterSettings(listen="127.0.0.1:0", schedulers=(sys.argv[1],), ready_file=sys.argv[2])))
"""


@contextlib.asynccontextmanager
async def process(scheduler: FakeScheduler, tmp_path: Path):
    """A router in a process of its own, on uvloop, as `headway serve router` runs it."""
    ready = tmp_path / "address"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROCESS, scheduler.address, str(ready)]
    child = await asyncio.to_thread(subprocess.Popen, command, env=environment)
    try:
        await until(ready.exists, 30)
        async with grpc.aio.insecure_channel(ready.read_text()) as channel:
            yield child, Client(channel)
    finally:
        child.kill()
        child.wait()


async def test_sigterm_drains_the_process(tmp_path):
    """SIGTERM: new requests are refused, the live stream finishes, the exit code is 0."""
    async with FakeScheduler() as scheduler, process(scheduler, tmp_path) as (child, client):
        scheduler.script = alphabet(gap_s=0.02)
        stream = asyncio.ensure_future(client.generate(request(max_tokens=50)))
        await until(lambda: scheduler.num_live == 1)
        child.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        assert (await client.refused(request())).reason == "SHUTTING_DOWN"
        assert (await stream).text == letters(0, 50)
        assert await asyncio.to_thread(child.wait, 10) == 0


async def test_a_second_sigterm_forces(tmp_path):
    """A SIGTERM that is doubled at once is one request, and lets the stream live; a second one does not wait for it."""
    async with FakeScheduler() as scheduler, process(scheduler, tmp_path) as (child, client):
        scheduler.script = silent
        call = client.stub.Generate(request())
        await until(lambda: scheduler.num_live == 1)
        child.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        await asyncio.sleep(REPEAT_S + 0.1)
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(child.wait, 10) != 0
        call.cancel()


async def test_a_killed_router_frees_its_sequences(tmp_path):
    """A killed router ends its session at the scheduler."""
    async with FakeScheduler() as scheduler, process(scheduler, tmp_path) as (child, client):
        scheduler.script = silent
        call = client.stub.Generate(request())
        await until(lambda: scheduler.num_live == 1)
        child.kill()
        await until(lambda: not scheduler.sessions)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() == UNAVAILABLE
