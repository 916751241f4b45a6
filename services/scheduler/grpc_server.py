"""The event loop's thread: serves gRPC until it is told to end."""

import asyncio
import contextlib
import threading
from concurrent.futures import Future

import grpc
import grpc.aio
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from services.runtime.lifecycle import BadSetting
from services.runtime.listen import try_listen
from services.runtime.logging import get_logger
from services.scheduler.commands import Command
from services.scheduler.hub import Hub
from services.scheduler.inbox import Inbox
from services.scheduler.servicer import SERVICE, SchedulingServicer

LIVENESS = "liveness"  # answers as long as the process does
WHOLE_SERVER = ""  # what balancers ask for unless told otherwise: readiness
READINESS = SERVICE
_READINESS_INTERVAL_S = 0.25
_MAX_MESSAGE_BYTES = 64 << 20  # a model card with its tokenizer, a prompt of a million tokens
_OPTIONS = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # two schedulers at one address would share its routers
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)
_START_TIMEOUT_S = 30.0

_log = get_logger(__name__)


class GrpcServer:
    """Runs an event loop in a thread of its own; `hub` is where the core's thread hands over what goes out."""

    def __init__(self, listen: str, inbox: Inbox[Command], backlog_limit_bytes: int) -> None:
        self._listen = listen
        self._inbox = inbox
        self._loop = uvloop.new_event_loop()
        self.hub = Hub(self._loop, backlog_limit_bytes)
        self._ended = asyncio.Event()
        self._grace_s = 0.0
        self._started: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, name="grpc", daemon=True)

    def start(self) -> int:
        """Returns the bound port (0 or 1 of a unix socket). Raises `BadSetting` when the address cannot be had."""
        self._thread.start()
        return self._started.result(_START_TIMEOUT_S)

    def stop(self, grace_s: float) -> None:
        """Writes what waits to be written, then ends every call that has not ended within `grace_s`."""
        if not self._thread.is_alive():
            return
        refused = self._started.done() and self._started.exception() is not None
        if not refused:  # else it ends by itself, and its loop may be closed already
            self._grace_s = grace_s
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._serve())
            except BadSetting as error:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((SchedulingServicer(self.hub, self._inbox).handlers(),))
        health_servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
        await health_servicer.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
        await _set_readiness(health_servicer, ready=False)
        try_listen(self._listen)
        try:
            port = server.add_insecure_port(self._listen)
        except RuntimeError:
            raise BadSetting(f"cannot listen on {self._listen}: it has just been taken") from None
        await server.start()
        self._started.set_result(port)
        readiness = asyncio.create_task(self._tell_readiness(health_servicer))
        await self._ended.wait()
        readiness.cancel()
        await _set_readiness(health_servicer, ready=False)
        self.hub.end_all()
        await server.stop(self._grace_s)

    async def _tell_readiness(self, health_servicer: health.aio.HealthServicer) -> None:
        """Keeps the health service's word the same as the hub's."""
        told = False
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.hub.ready_changed.wait(), _READINESS_INTERVAL_S)
            self.hub.ready_changed.clear()
            ready = self.hub.is_ready()
            if ready is not told:
                told = ready
                await _set_readiness(health_servicer, ready=ready)
                _log.info("readiness changed", ready=ready)


async def _set_readiness(health_servicer: health.aio.HealthServicer, *, ready: bool) -> None:
    status = health_pb2.HealthCheckResponse
    for service in (READINESS, WHOLE_SERVER):
        await health_servicer.set(service, status.SERVING if ready else status.NOT_SERVING)
