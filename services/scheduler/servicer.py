"""The gRPC face of the scheduler: bytes of routers to commands for the core, and the core's messages back.

Messages are decoded by our own codec, so that a malformed one ends in words, on the call that it came on alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import grpc
import grpc.aio

from services.runtime.errors import Refusal, invalid
from services.runtime.logging import get_logger
from services.scheduler.commands import CancelById, Command, Explain, FromRouter
from services.scheduler.hub import Hub
from services.scheduler.inbox import Inbox
from services.scheduler.router_stream import RouterStream
from services.wire import codec
from services.wire.event_log import RoutedCancel, RoutedStop, RoutedSubmit, SessionClosed, SessionOpened
from services.wire.execution import PROTOCOL
from services.wire.message import InvalidMessage, Message
from services.wire.scheduling import (
    Cancel,
    CancelByIdRequest,
    ExplainByIdRequest,
    GetModelCardRequest,
    RouterHello,
    Stop,
    Submit,
    ToScheduler,
    WatchRequest,
)

SERVICE = "headway.internal.v1.Scheduling"
_INBOX_PAUSE_S = 0.001
_ABORT_TIMEOUT_S = 2.0
_LOGGED_NAME_CHARACTERS = 64

M = TypeVar("M", bound=Message)
Context = grpc.aio.ServicerContext[bytes, bytes]

_log = get_logger(__name__)


class SchedulingServicer:
    """All of headway.internal.v1.Scheduling; lives in the event loop."""

    def __init__(self, hub: Hub, inbox: Inbox[Command]) -> None:
        self._hub = hub
        self._inbox = inbox

    def handlers(self) -> grpc.GenericRpcHandler:
        """The service's methods, which take and give bytes."""
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Attach": grpc.stream_stream_rpc_method_handler(self._attach),
            "GetModelCard": grpc.unary_unary_rpc_method_handler(self._get_model_card),
            "Explain": grpc.unary_unary_rpc_method_handler(self._explain),
            "CancelById": grpc.unary_unary_rpc_method_handler(self._cancel_by_id),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _attach(self, requests: AsyncIterator[bytes], context: Context) -> None:
        """One router's session, from its hello to the end of its stream."""
        try:
            hello = await _read_hello(requests)
            stream = self._hub.open_stream()
            _log.info("router attached", router=stream.router, name=hello.router[:_LOGGED_NAME_CHARACTERS])
            self._inbox.put(SessionOpened(router=stream.router))
            try:
                await self._run_session(stream, requests, context)
            finally:
                self._hub.close_stream(stream)
                self._inbox.put(SessionClosed(router=stream.router))
                _log.info("router gone", router=stream.router)
        except Refusal as refusal:
            _log.warning("router refused", reason=refusal.message)
            await _abort(context, refusal)

    async def _run_session(self, stream: RouterStream, requests: AsyncIterator[bytes], context: Context) -> None:
        """Reads and writes until either ends, or the stream breaks. Raises the Refusal that ended it."""
        # On its own: were it part of a first write that is cut off, no status could be sent after it.
        await context.send_initial_metadata(())
        reader = asyncio.create_task(self._read(stream.router, requests))
        writer = asyncio.create_task(stream.write_to(context.write))
        try:
            await asyncio.wait((reader, writer, stream.broken), return_when=asyncio.FIRST_COMPLETED)
            for ended in (stream.broken, reader, writer):
                if ended.done():
                    ended.result()
        finally:
            stream.broken.cancel()
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _read(self, router: int, requests: AsyncIterator[bytes]) -> None:
        """Turns the router's messages into commands until it has no more to say."""
        async for data in requests:
            command = _command(router, _decode(ToScheduler, data))
            while self._inbox.is_full:  # noqa: ASYNC110 the core's thread takes; it has no event of this loop to set
                await asyncio.sleep(_INBOX_PAUSE_S)
            self._inbox.put(command)

    async def _get_model_card(self, data: bytes, context: Context) -> bytes:
        await _decoded(GetModelCardRequest, data, context)
        return self._hub.card

    async def _explain(self, data: bytes, context: Context) -> bytes:
        request = await _decoded(ExplainByIdRequest, data, context)
        return await self._ask(lambda answer: Explain(request, answer))

    async def _cancel_by_id(self, data: bytes, context: Context) -> bytes:
        request = await _decoded(CancelByIdRequest, data, context)
        return await self._ask(lambda answer: CancelById(request, answer))

    async def _watch(self, data: bytes, context: Context) -> None:
        request = await _decoded(WatchRequest, data, context)
        watcher = self._hub.open_watcher(request.max_records_per_second)
        try:
            await watcher.write_to(context.write)
        finally:
            self._hub.close_watcher(watcher)

    async def _ask(self, command_of: Callable[[Callable[[Message], None]], Command]) -> bytes:
        """Puts a question to the core's thread and waits for its answer."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Message] = loop.create_future()

        def set_result(answer: Message) -> None:
            if not future.done():  # the asker may have gone
                future.set_result(answer)

        self._inbox.put(command_of(lambda answer: _call_in(loop, set_result, answer)))
        return codec.encode(await future)


async def _read_hello(requests: AsyncIterator[bytes]) -> RouterHello:
    """The first message of a stream. Raises `Refusal` when it is not a hello in our protocol."""
    data = await anext(requests, None)
    if data is None:
        raise invalid("a stream begins with a RouterHello")
    message = _decode(ToScheduler, data).body
    if not isinstance(message, RouterHello):
        raise invalid(f"a stream begins with a RouterHello, not with a {type(message).__name__}")
    if message.protocol != PROTOCOL:
        raise Refusal(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"this scheduler speaks protocol {PROTOCOL}, the router {message.protocol}: deploy both from one release",
        )
    return message


def _command(router: int, message: ToScheduler) -> FromRouter:
    match message.body:
        case Submit() as submit:
            return RoutedSubmit(router=router, submit=submit)
        case Stop() as stop:
            return RoutedStop(router=router, stop=stop)
        case Cancel() as cancel:
            return RoutedCancel(router=router, cancel=cancel)
        case RouterHello():
            raise invalid("a stream has one RouterHello, at its beginning")


def _decode(kind: type[M], data: bytes) -> M:
    try:
        return codec.decode(kind, data)
    except InvalidMessage as error:
        raise invalid(str(error)) from None


async def _decoded(kind: type[M], data: bytes, context: Context) -> M:
    """The request of a unary call; a malformed one ends the call."""
    try:
        return _decode(kind, data)
    except Refusal as refusal:
        await _abort(context, refusal)
        raise


async def _abort(context: Context, refusal: Refusal) -> None:
    """Ends a call with a status; does not wait for a peer that reads nothing."""
    abort: Awaitable[None] = context.abort(refusal.code, refusal.message, refusal.trailers())
    await asyncio.wait_for(abort, _ABORT_TIMEOUT_S)


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[[Message], None], answer: Message) -> None:
    loop.call_soon_threadsafe(function, answer)
