"""The scheduler process: puts its parts together, serves, and ends."""

import contextlib
import errno
import itertools
import os
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from io import FileIO
from pathlib import Path

import zmq

from services.runtime import logging
from services.runtime.curve import read_keys
from services.runtime.lifecycle import BadSetting, ExitCode, on_terminate
from services.runtime.zeromq import ServerChannel
from services.scheduler.commands import BeginDrain, Command
from services.scheduler.core.core import Core
from services.scheduler.core.settings import CoreSettings
from services.scheduler.executor_link import ExecutorLink, decode_from_executor
from services.scheduler.grpc_server import GrpcServer
from services.scheduler.inbox import Inbox
from services.scheduler.recorder import Recorder
from services.scheduler.service import SchedulerService
from services.scheduler.settings import SchedulerSettings
from services.wire import codec
from services.wire.execution import FromExecutor, Reset, ToExecutor

SWITCH_INTERVAL_S = 0.0005  # the core's thread gets the interpreter back in half a millisecond
_LAST_WORDS_S = 2.0

_log = logging.get_logger(__name__)


def main(settings: SchedulerSettings) -> int:
    """Runs one scheduler; returns the process's exit code."""
    logging.configure("scheduler", settings.log_level, settings.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        with ExitStack() as stack:
            return _serve(settings, stack)
    except BadSetting as error:
        _log.error("cannot start", reason=str(error))
        return ExitCode.BAD_SETTING
    except Exception:  # noqa: BLE001 the process border: a broken core is not served on; routers submit again elsewhere
        _log.exception("scheduler broke")
        return ExitCode.BROKEN


def _serve(settings: SchedulerSettings, stack: ExitStack) -> int:
    clock_us = _clock_us()
    inbox: Inbox[Command] = Inbox()
    stack.callback(inbox.close)
    link = _open_link(settings, stack)
    server = GrpcServer(settings.listen, inbox, settings.router_backlog_bytes)
    stack.callback(server.stop, _LAST_WORDS_S)
    server.start()
    core_settings = settings.core()
    service = SchedulerService(
        Core(core_settings),
        link,
        inbox,
        server.hub,
        recorder=_open_recorder(settings.record, core_settings, stack),
        clock_us=clock_us,
        heartbeat_timeout_us=int(settings.executor_heartbeat_timeout_s * 1e6),
        drain_timeout_us=int(settings.drain_timeout_s * 1e6),
    )
    on_terminate(lambda: inbox.put(BeginDrain()))
    _log.info("serving", listen=settings.listen, executor_endpoint=settings.executor_endpoint)
    return service.run()


def _open_link(settings: SchedulerSettings, stack: ExitStack) -> ExecutorLink:
    keys = read_keys(settings.curve_key_file)
    context: zmq.Context[zmq.Socket[bytes]] = stack.enter_context(zmq.Context())
    channel: ServerChannel[ToExecutor, FromExecutor] = ServerChannel(
        context, settings.executor_endpoint, encode=codec.encode, decode=decode_from_executor, keys=keys
    )
    link = ExecutorLink(
        channel,
        Reset(max_slots=settings.max_slots, max_step_tokens=settings.token_budget),
        lost_timeout_us=int(settings.executor_lost_timeout_s * 1e6),
        mint_session=lambda: secrets.randbits(63) + 1,
    )
    stack.callback(link.close)
    return link


def _open_recorder(path: str, settings: CoreSettings, stack: ExitStack) -> Recorder | None:
    if not path:
        return None
    try:
        file = stack.enter_context(_new_file(path))
    except OSError as error:
        raise BadSetting(f"cannot write the event log {path!r}: {error.strerror}") from None
    _log.info("recording", event_log=file.name)
    return Recorder(file, settings, build=version("headway-llm"))


def _new_file(path: str) -> FileIO:
    """The first of PATH, PATH.1, PATH.2 and so on that is not there: what an earlier process wrote is kept.

    Without a buffer, so that a killed process leaves what it has recorded.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    for name in itertools.chain([path], (f"{path}.{number}" for number in itertools.count(1))):
        with contextlib.suppress(FileExistsError):
            return Path(name).open("xb", buffering=0)
    raise AssertionError("the numbers never end")


def _clock_us() -> Callable[[], int]:
    """The scheduler's own clock: microseconds from now on."""
    start_ns = time.monotonic_ns()
    return lambda: (time.monotonic_ns() - start_ns) // 1000
