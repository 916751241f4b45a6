"""A launch: one peer's processes, from their start to their end, and the target through which it is asked."""

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from aiohttp import ClientError, ClientSession, ClientTimeout

from benchmarks.peers.driven_target import DrivenTarget
from benchmarks.peers.processes import running
from services.cli.bench.grpc_target import GrpcTarget
from services.cli.bench.http_target import HttpTarget
from services.cli.bench.target import Broken, Target

LOOPBACK = "127.0.0.1"
_POLL_S = 0.02
_PROBE = ClientTimeout(total=5.0)

Speaks = Literal["lines", "http", "grpc"]


class NotStarted(Exception):
    """The peer did not come up; the message says what it said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a peer is started. In `command`, the words {port} and {ready_file} are filled in."""

    command: Sequence[str]
    speaks: Speaks
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    start_limit_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Live:
    """A peer that runs and takes requests."""

    target: Target
    process: subprocess.Popen[bytes]
    """The leader of the session that all its processes are in."""
    launched_s: float
    """When its command was started, on the clock of `time.perf_counter`."""


@asynccontextmanager
async def launched(launch: Launch, log: Path) -> AsyncIterator[Live]:
    """Starts the peer; what it says goes into `log`. Raises `NotStarted`."""
    port, ready_file = free_port(), log.with_suffix(".address")
    ready_file.unlink(missing_ok=True)
    blanks = {"{port}": str(port), "{ready_file}": str(ready_file)}
    command = [blanks.get(part, part) for part in launch.command]
    launched_s = time.perf_counter()
    with running(command, log, cwd=launch.cwd, env=launch.env, pipes=launch.speaks == "lines") as process:
        waiting = _Waiting(process, log, launched_s + launch.start_limit_s)
        async with await _target(launch.speaks, waiting, port, ready_file) as target:
            try:
                async with asyncio.timeout(launch.start_limit_s):
                    await target.facts()
            except Broken as error:
                raise NotStarted(f"{error}: {last_words(log)}") from None
            except TimeoutError:
                raise NotStarted(f"not ready within {launch.start_limit_s:g} s: {last_words(log)}") from None
            yield Live(target, process, launched_s)


async def _target(speaks: Speaks, waiting: "_Waiting", port: int, ready_file: Path) -> Target:
    if speaks == "lines":
        return DrivenTarget(waiting.process)
    if speaks == "http":
        address = f"http://{LOOPBACK}:{port}"
        async with ClientSession(timeout=_PROBE) as session:
            while not await _is_healthy(session, address):
                await waiting.pause()
        return HttpTarget(address, model="", prompts="text")
    while not (address := _said_in(ready_file)):
        await waiting.pause()
    return GrpcTarget(address, model="", prompts="text")


def _said_in(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def _is_healthy(session: ClientSession, address: str) -> bool:
    try:
        async with session.get(f"{address}/health") as response:
            return response.status == 200
    except (ClientError, TimeoutError):
        return False


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Waiting for a process to be ready: for so long, and only while it lives."""

    process: subprocess.Popen[bytes]
    log: Path
    give_up_s: float

    async def pause(self) -> None:
        """Raises `NotStarted` where waiting longer is of no use."""
        if (code := self.process.poll()) is not None:
            raise NotStarted(f"it ended with exit code {code}: {last_words(self.log)}")
        if time.perf_counter() > self.give_up_s:
            raise NotStarted(f"not ready in time: {last_words(self.log)}")
        await asyncio.sleep(_POLL_S)


def last_words(log: Path) -> str:
    """The last line of a log that has any letters: of a Python traceback that is the error."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    said = [line for line in lines if any(map(str.isalpha, line))]
    return said[-1][-300:] if said else "it said nothing"


def free_port() -> int:
    """A port of loopback that nobody has just now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def first_cpus(count: int) -> list[int]:
    """The first CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))[:count]
