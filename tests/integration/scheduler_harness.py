"""Real scheduler and executor processes, and a router that a test speaks through."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from pathlib import Path

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.executor.simulated_script import answer_of
from services.wire import codec
from services.wire.execution import Sampling
from services.wire.message import int32_column
from services.wire.scheduling import (
    FinishCause,
    Finished,
    Load,
    Rejected,
    RouterHello,
    SchedulerHello,
    StepTokens,
    Submit,
    ToRouter,
    ToScheduler,
)

SERVICE = "headway.internal.v1.Scheduling"
WAIT_S = 20.0
NUM_TOKENS = 300  # of each of the streams that a fault befalls
FOREVER = Sampling(temperature=0.0, ignore_eos=True)
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
_SERVE = ("-m", "services.cli.main", "serve")


def _with_limit(least_limit_s):
    """`serve` with another time that every step may take before it is taken for hung."""
    change = f"progress.MIN_TIME_LIMIT_US = {least_limit_s * 1_000_000}"
    code = f"import sys; from services.scheduler.core import progress; from services.cli.main import main; {change}; "
    return "-c", code + "sys.exit(main(sys.argv[1:]))", "serve"


class Cluster:
    """Starts the processes of one scheduler in a directory; all of them end with the test."""

    def __init__(self, directory):
        self.directory = directory
        self.address = f"unix:{directory}/s.sock"
        self.executor_endpoint = f"ipc://{directory}/x.sock"
        self.processes = []
        self.may_break = False  # whether a process of this test may end with a traceback

    def start_scheduler(self, least_limit_s=None, **settings):
        """Where `least_limit_s` is given, that is how long a step may take at least, not the product's 10 s."""
        settings = {"listen": self.address, "executor_endpoint": self.executor_endpoint, **settings}
        return self._start("scheduler", settings, _SERVE if least_limit_s is None else _with_limit(least_limit_s))

    def start_executor(self, *, hooks=False, **settings):
        defaults = {
            "backend": "simulated",
            "scheduler_endpoint": self.executor_endpoint,
            "simulated_script": "random",
            "simulated_step_fixed_us": 1000,
        }
        return self._start("executor", {**defaults, **settings}, hooks=hooks)

    def log(self, process):
        return (self.directory / f"{process.pid}.log").read_text()

    def close(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()
        for process in self.processes:
            log = self.log(process)
            assert "Traceback" not in log or self.may_break, log

    def _start(self, name, settings, serve=_SERVE, *, hooks=False):
        flags = [part for key, value in settings.items() for part in (f"--{key.replace('_', '-')}", str(value))]
        environment = {**os.environ, "HEADWAY_SUPERVISOR_PID": str(os.getpid())}
        environment["HEADWAY_TEST_HOOKS"] = "1" if hooks else "0"
        unnamed = self.directory / f"starting-{len(self.processes)}.log"
        with unnamed.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", *serve, name, *flags],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        unnamed.rename(self.directory / f"{process.pid}.log")
        self.processes.append(process)
        return process


class Router:
    """One Attach stream; keeps what it hears by handle."""

    def __init__(self, address):
        self.channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        self.hellos = []
        self.loads = []
        self.tokens = defaultdict(list)
        self.ends = {}
        self._changed = asyncio.Condition()
        self._call = None
        self._reader = None

    async def attach(self, hello=None):
        """Attaches, again while the scheduler starts; returns when its hello has come."""
        await asyncio.wait_for(self.channel.channel_ready(), WAIT_S)
        self._call = self.channel.stream_stream(f"/{SERVICE}/Attach")()
        await self.send(hello or RouterHello(router="test"))
        self._reader = asyncio.create_task(self._read())
        await self.until(lambda: self.hellos or self._reader.done())
        return self

    async def send(self, body):
        await self.send_bytes(codec.encode(ToScheduler(body=body)))

    async def send_bytes(self, data):
        await self._call.write(data)

    async def until(self, condition, timeout_s=WAIT_S):
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(condition), timeout_s)

    async def ready(self):
        """Waits until the scheduler has an executor."""
        await self.until(lambda: self.hellos and self.hellos[-1].executor_ready)

    async def status(self):
        """The status with which the stream ended."""
        return await asyncio.wait_for(self._call.code(), WAIT_S), await self._call.details()

    async def finish_writing(self):
        await self._call.done_writing()

    async def close(self):
        if self._reader:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self.channel.close()

    async def _read(self):
        try:
            async for data in self._call:
                await self._hear(codec.decode(ToRouter, data).body)
        except grpc.aio.AioRpcError:
            pass
        finally:
            async with self._changed:
                self._changed.notify_all()

    async def _hear(self, body):
        async with self._changed:
            match body:
                case SchedulerHello():
                    self.hellos.append(body)
                case Load():
                    self.loads.append(body)
                case StepTokens():
                    flat = body.tokens.tolist()
                    for handle, count in zip(body.handles.tolist(), body.counts.tolist(), strict=True):
                        self.tokens[handle] += flat[:count]
                        del flat[:count]
                case Finished() | Rejected():
                    assert body.handle not in self.ends, "a second last word"
                    self.ends[body.handle] = body
            self._changed.notify_all()


def submit(handle, *, prompt=b"hello", max_tokens=20, seed=None, sampling=FOREVER, request_id="", **fields):
    """A request of the test's own."""
    return Submit(
        handle=handle,
        request_id=request_id or uuid.uuid4().hex,
        token_ids=int32_column(list(prompt)),
        prompt_length=len(prompt),
        chain_root=bytes(16),
        seed=handle if seed is None else seed,
        sampling=sampling,
        max_tokens=max_tokens,
        **fields,
    )


async def start_streams(router, num_streams=5, max_tokens=NUM_TOKENS):
    """Returns when each of so many streams has begun."""
    for handle in range(1, num_streams + 1):
        await router.send(submit(handle, prompt=b"stream %d" % handle, max_tokens=max_tokens))
    await router.until(lambda: all(len(router.tokens[handle]) > 5 for handle in range(1, num_streams + 1)))


async def stream_through(cluster, new_router, **settings):
    """A scheduler, its executor of 3 ms a step, and a router with five streams that have begun."""
    scheduler = cluster.start_scheduler(**settings)
    executor = cluster.start_executor(simulated_step_fixed_us=3000)
    router = await new_router()
    await router.ready()
    await start_streams(router)
    return scheduler, executor, router


async def check_streams(router, num_streams=5, max_tokens=NUM_TOKENS):
    """Waits for their ends: each is whole, with the tokens of an undisturbed run."""
    await router.until(lambda: len(router.ends) == num_streams)
    for handle in range(1, num_streams + 1):
        assert router.ends[handle].cause is FinishCause.LENGTH
        assert router.tokens[handle] == random_answer(b"stream %d" % handle, handle, max_tokens)


def random_answer(prompt, seed, count):
    """What the simulated executor's random script answers."""
    answer, tokens = answer_of("random", list(prompt), seed), list(prompt)
    for _ in range(count):
        tokens.append(answer(len(tokens), tokens[-1]))
    return tokens[len(prompt) :]


@contextlib.contextmanager
def new_cluster():
    """A directory with a short path (sockets), and the processes started in it."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder, contextlib.closing(Cluster(Path(folder))) as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def routers_of(cluster):
    """Makes attached routers; closes them at its end."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(**options):
            router = Router(cluster.address)
            stack.push_async_callback(router.close)
            return await router.attach(**options)

        yield make


async def health(channel, service=SERVICE):
    """SERVING or not, as the health service says."""
    stub = health_pb2_grpc.HealthStub(channel)
    response = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S)
    return response.status == health_pb2.HealthCheckResponse.SERVING


async def until_health(channel, wanted, timeout_s=WAIT_S):
    """Waits for readiness to become `wanted`; returns how long that took."""
    started = time.monotonic()
    while await health(channel) is not wanted:
        assert time.monotonic() - started < timeout_s, f"readiness did not become {wanted}"
        await asyncio.sleep(0.02)
    return time.monotonic() - started


async def exit_code(process, timeout_s=WAIT_S):
    """Waits for a process to end."""
    return await asyncio.to_thread(process.wait, timeout_s)
