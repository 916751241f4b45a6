"""An in-process Scheduling server for tests of the router: each request is answered by a script."""

import asyncio
import contextlib
from collections.abc import Callable

import grpc
import grpc.aio

from services.wire.codec import decode, encode
from services.wire.scheduling import (
    Cancel,
    CancelByIdRequest,
    CancelByIdResponse,
    ExplainByIdRequest,
    ExplainByIdResponse,
    GetModelCardResponse,
    Load,
    RouterHello,
    SchedulerHello,
    Stop,
    Submit,
    ToScheduler,
)
from tests.support.fake_model import fake_card
from tests.support.fake_session import FakeSession
from tests.support.scripts import Script, alphabet


class FakeScheduler:
    """Use as an asynchronous context; `stop` and `start` again play a lost and a restarted scheduler."""

    def __init__(self, **limits) -> None:
        self.card = fake_card()
        self.executor_ready = True
        self.limits = {
            "block_size": 16,
            "pool_tokens": 4096,
            "max_request_tokens": 1024,
            "default_max_tokens": 20,
            "max_waiting_requests": 100,
            "max_waiting_tokens": 10_000,
        } | limits
        self.load = Load(total_blocks=100, free_blocks=100)
        self.load_every_s: float | None = 0.05
        self.script: Script = alphabet()
        self.scripts: dict[str, Script] = {}  # by request id
        self.views: dict[str, ExplainByIdResponse] = {}
        self.cancelled_by_id: list[str] = []
        self.submits: list[Submit] = []
        self.stops: list[Stop] = []
        self.cancels: list[Cancel] = []
        self.sessions: list[FakeSession] = []
        self.port = 0
        self._server = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def num_live(self) -> int:
        return sum(len(session.live) for session in self.sessions)

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handlers = {
            "Attach": grpc.stream_stream_rpc_method_handler(self._attach),
            "GetModelCard": grpc.unary_unary_rpc_method_handler(self._get_model_card),
            "Explain": grpc.unary_unary_rpc_method_handler(self._explain),
            "CancelById": grpc.unary_unary_rpc_method_handler(self._cancel_by_id),
        }
        generic = grpc.method_handlers_generic_handler("headway.internal.v1.Scheduling", handlers)
        self._server.add_generic_rpc_handlers((generic,))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0)

    async def drop_sessions(self) -> None:
        """Breaks the streams; the server stays."""
        for session in list(self.sessions):
            session.reader.cancel()

    def hello(self) -> SchedulerHello:
        if not self.executor_ready:
            return SchedulerHello(executor_ready=False)
        digests = {"fingerprint": self.card.fingerprint, "numerics_digest": self.card.numerics_digest}
        return SchedulerHello(executor_ready=True, **digests, **self.limits)

    async def say_hello(self) -> None:
        for session in self.sessions:
            await session.send(self.hello())

    async def _attach(self, _requests, context) -> None:
        session = FakeSession(context)
        session.reader = asyncio.ensure_future(self._read(session))
        loads = asyncio.ensure_future(self._send_loads(session))
        writer = asyncio.ensure_future(session.write())
        self.sessions.append(session)
        try:
            await session.send(self.hello())
            with contextlib.suppress(asyncio.CancelledError):
                await session.reader
            await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped")
        finally:
            self.sessions.remove(session)
            for task in (session.reader, loads, writer, *session.live.values()):
                task.cancel()

    async def _read(self, session: FakeSession) -> None:
        while (data := await session.context.read()) is not grpc.aio.EOF:
            match decode(ToScheduler, data).body:
                case RouterHello():
                    pass
                case Submit() as submit:
                    self.submits.append(submit)
                    script = self.scripts.get(submit.request_id, self.script)
                    session.live[submit.handle] = asyncio.ensure_future(script(session, submit))
                case Stop() as stop:
                    self.stops.append(stop)
                    session.end(stop.handle)
                case Cancel() as cancel:
                    self.cancels.append(cancel)
                    session.end(cancel.handle)

    async def _send_loads(self, session: FakeSession) -> None:
        while True:
            if self.load_every_s is not None:
                await session.send(self.load)
            await asyncio.sleep(self.load_every_s or 0.05)

    async def _get_model_card(self, _request, _context) -> bytes:
        return encode(GetModelCardResponse(ready=self.executor_ready, card=self.card if self.executor_ready else None))

    async def _explain(self, request, _context) -> bytes:
        asked = decode(ExplainByIdRequest, request)
        return encode(self.views.get(asked.request_id, ExplainByIdResponse()))

    async def _cancel_by_id(self, request, _context) -> bytes:
        asked = decode(CancelByIdRequest, request)
        self.cancelled_by_id.append(asked.request_id)
        return encode(CancelByIdResponse(cancelled=int(asked.request_id in self.views)))


async def until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Waits until `condition()` holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
