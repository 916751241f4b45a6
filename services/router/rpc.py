"""The border of the gRPC server: bytes in, bytes out; whatever goes wrong inside ends with a status in words.

The library hands over raw bytes, so that a message that is none is refused by us, as what it is: the client's fault.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto

from services.router.slow_readers import SlowReaders
from services.runtime.errors import Refusal, internal, invalid
from services.runtime.logging import get_logger

log = get_logger(__name__)
P = TypeVar("P", bound=Proto)
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic for the type checker only
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"


class Call:
    """One call of a client, as the servicers see it."""

    def __init__(self, context: Context, readers: SlowReaders) -> None:
        self._context = context
        self._readers = readers

    @property
    def time_left_s(self) -> float | None:
        """Until the call's deadline; None without one."""
        return self._context.time_remaining()

    async def write(self, message: Proto) -> None:
        """Sends `message`. Raises `Refusal` when the client reads nothing."""
        try:
            await self._readers.write(self._context, message.SerializeToString())
        except grpc.aio.InternalError:
            raise _client_gone() from None

    async def read(self, kind: type[P]) -> P | None:
        """The client's next message; None when it has sent its last. Raises `Refusal`."""
        data = await self._context.read()
        return None if data is grpc.aio.EOF else parse(kind, data)


def parse(kind: type[P], data: bytes) -> P:
    """The message of `kind` in `data`. Raises `Refusal`."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError:
        name = kind.DESCRIPTOR.name
        raise invalid(f"the message is no {name}: it is malformed, or a text in it is not UTF-8") from None
    return message


def unary(kind: type[P], method: Callable[[P, Call], Awaitable[Proto]], readers: SlowReaders) -> Handler:
    """The handler of a method that answers one message with one."""

    async def handle(data: bytes, context: Context) -> bytes:
        async def answer() -> bytes:
            return (await method(parse(kind, data), Call(context, readers))).SerializeToString()

        return await _guarded(answer, context)

    return grpc.unary_unary_rpc_method_handler(handle)


def server_streaming(kind: type[P], method: Callable[[P, Call], Awaitable[None]], readers: SlowReaders) -> Handler:
    """The handler of a method that answers one message with many, written to the call."""

    async def handle(data: bytes, context: Context) -> None:
        async def answer() -> None:
            await method(parse(kind, data), Call(context, readers))

        await _guarded(answer, context)

    return grpc.unary_stream_rpc_method_handler(handle)


def bidirectional(method: Callable[[Call], Awaitable[None]], readers: SlowReaders) -> Handler:
    """The handler of a method that reads and writes the call as it likes."""

    async def handle(_requests: Any, context: Context) -> None:
        await _guarded(lambda: method(Call(context, readers)), context)

    return grpc.stream_stream_rpc_method_handler(handle)


T = TypeVar("T")


async def _guarded(answer: Callable[[], Awaitable[T]], context: Context) -> T:
    """`answer()`, or its failure as a status; a client that is gone is told nothing."""
    try:
        return await answer()
    except Refusal as refusal:
        await _abort(context, refusal)
    except asyncio.CancelledError:
        raise
    except Exception:
        log.exception("a call failed")
        await _abort(context, internal())


async def _abort(context: Context, refusal: Refusal) -> NoReturn:
    try:
        await context.abort(refusal.code, refusal.message, refusal.trailers())
    except grpc.aio.InternalError:
        raise _client_gone() from None


def _client_gone() -> asyncio.CancelledError:
    """What the library would raise a moment later: an operation on the call has found it closed."""
    return asyncio.CancelledError("the client is gone")
