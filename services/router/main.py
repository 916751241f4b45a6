"""The router process: bind, serve, drain."""

import asyncio
import contextlib
import gc
import logging
from pathlib import Path

import uvloop

from services.router.server import RouterServer
from services.router.settings import RouterSettings
from services.runtime.errors import Refusal
from services.runtime.files import write_whole
from services.runtime.lifecycle import BadSetting, ExitCode, on_terminate
from services.runtime.logging import configure, get_logger

log = get_logger(__name__)


def main(settings: RouterSettings) -> int:
    """Runs a router until SIGTERM; returns the exit code. A second SIGTERM ends the process at once."""
    configure("router", settings.log_level, settings.log_format)
    # The library's own words are about clients that went away; what fails in our handlers is logged by us.
    logging.getLogger("grpc").setLevel(logging.CRITICAL)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except BadSetting as error:
        log.error("bad setting", why=str(error))  # noqa: TRY400 (the operator needs the words, not our stack)
        return ExitCode.BAD_SETTING
    except Exception:
        log.exception("the router failed")
        return ExitCode.BROKEN
    return ExitCode.OK


async def _serve(settings: RouterSettings) -> None:
    loop = asyncio.get_running_loop()
    terminated = asyncio.Event()

    def drain() -> None:
        loop.call_soon_threadsafe(terminated.set)

    on_terminate(drain)
    async with RouterServer(settings) as server:
        log.info("listening", address=server.address)
        if settings.ready_file:
            write_whole(Path(settings.ready_file), server.address)
        warm = asyncio.ensure_future(_freeze_when_warm(server))
        stop = asyncio.ensure_future(terminated.wait())
        failed = asyncio.ensure_future(server.failed())
        await asyncio.wait([stop, failed], return_when=asyncio.FIRST_COMPLETED)
        for task in (warm, stop):
            task.cancel()
        if failed.done():
            failed.result()
        await server.drain()
        failed.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await failed


async def _freeze_when_warm(server: RouterServer) -> None:
    """Takes what lives as long as the process out of the garbage collector's sight: its pauses are felt between tokens."""
    while True:
        with contextlib.suppress(Refusal):
            await server.fleet.model()
            gc.collect()
            gc.freeze()
            return
