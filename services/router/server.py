"""The router's server: everything that one router process runs, from bind to drain."""

import asyncio
import contextlib
from typing import Self

import grpc
import grpc.aio

from services.router.call_places import CallPlaces, YieldingPlaces
from services.router.fleet import Fleet
from services.router.health import Health
from services.router.inference import Inference
from services.router.intake import Intake, shutting_down
from services.router.reflection import reflection_handlers
from services.router.rpc import Border
from services.router.settings import RouterSettings
from services.router.slow_readers import SlowReaders
from services.runtime.lifecycle import BadSetting
from services.runtime.listen import try_listen
from services.runtime.logging import get_logger

_LAST_WORDS_S = 1.0  # for statuses on their way when the server stops

log = get_logger(__name__)


class RouterServer:
    """An asynchronous context: bound and attaching inside, stopped after it."""

    def __init__(self, settings: RouterSettings) -> None:
        self._settings = settings
        self.fleet = Fleet(settings)
        self.intake = Intake(settings, self.fleet)
        self._readers = SlowReaders(settings.slow_reader_s)
        self._server = grpc.aio.server(options=_options(settings), maximum_concurrent_rpcs=settings.max_concurrent_rpcs)
        self._running: list[asyncio.Future[None]] = []
        self.address = ""

    async def __aenter__(self) -> Self:
        """Raises `BadSetting` when the address cannot be had."""
        self._server.add_generic_rpc_handlers(self._handlers())
        self.address = self._bind()
        await self._server.start()
        self._running = [asyncio.ensure_future(self.fleet.run()), asyncio.ensure_future(self._readers.run())]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.intake.fail_all(shutting_down())
        await self._server.stop(_LAST_WORDS_S)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def is_ready(self) -> bool:
        """Whether a request that arrives now would be admitted and computed."""
        return not self.intake.draining and self.fleet.is_ready()

    async def failed(self) -> None:
        """Returns never; raises what ended a part of the server that is to run for ever."""
        await asyncio.gather(*self._running)

    async def drain(self) -> None:
        """Admits nothing more, and returns when the live requests have ended or their time is over."""
        self.intake.draining = True
        log.info("draining", live_requests=self.intake.num_live)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_timeout_s):
                await self.intake.idle()
        log.info("drained", given_up=self.intake.num_live)

    def _handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        settings = self._settings
        border = Border(self._readers, settings.max_request_bytes, settings.idle_call_s)
        # Half of the spare places: a call that gives way, and one that is refused, take a moment to end.
        checks, watches = YieldingPlaces(settings.num_spare_rpcs // 2 or 1), CallPlaces(settings.max_watch_calls)
        inference = Inference(settings, self.fleet, self.intake)
        return (
            inference.handlers(border),
            Health(self.is_ready).handlers(border, checks, watches),
            *reflection_handlers(border, watches),
        )

    def _bind(self) -> str:
        listen = self._settings.listen
        try_listen(listen)
        try:
            port = self._server.add_insecure_port(listen)
        except RuntimeError:
            raise BadSetting(f"cannot listen on {listen}: it has just been taken") from None
        return listen if listen.startswith("unix:") else f"{listen.rpartition(':')[0]}:{port}"


def _options(settings: RouterSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # a second router on the same port fails instead of taking half of the calls
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_metadata_size", settings.max_metadata_bytes),
        ("grpc.absolute_max_metadata_size", settings.max_metadata_bytes),
        ("grpc.max_concurrent_streams", settings.max_concurrent_streams),
        ("grpc.keepalive_time_ms", int(settings.keepalive_time_s * 1000)),
        ("grpc.keepalive_timeout_ms", int(settings.keepalive_timeout_s * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", int(settings.min_client_ping_interval_s * 1000)),
    ]
