"""The border of the gRPC server: bytes in, bytes out; whatever goes wrong inside ends with a status in words.

The library hands over raw bytes, so that a message that is none is refused by us, as what it is: the client's fault. Every
method is served as a stream both ways, which is the same on the wire: the library would hold the bytes of a single
request for as long as its answer takes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto

from services.router.call_places import Places
from services.router.outline import largest_field
from services.router.slow_readers import SlowReaders
from services.runtime.errors import Refusal, error_info, internal, invalid, invalid_field
from services.runtime.logging import get_logger

log = get_logger(__name__)
P = TypeVar("P", bound=Proto)
T = TypeVar("T")
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic for the type checker only
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"


@dataclass(frozen=True, slots=True)
class Border:
    """What holds for all calls of a server."""

    readers: SlowReaders
    max_request_bytes: int  # a larger message is not parsed
    idle_call_s: float  # a call that asks nothing for this long is ended


class Call:
    """One call of a client, as the servicers see it."""

    def __init__(self, context: Context, border: Border) -> None:
        self._context = context
        self._border = border

    @property
    def time_left_s(self) -> float | None:
        """Until the call's deadline; None without one."""
        return self._context.time_remaining()

    async def write(self, message: Proto) -> None:
        """Sends `message`. Raises `Refusal` when the client reads nothing."""
        try:
            await self._border.readers.write(self._context, message.SerializeToString())
        except grpc.aio.InternalError:
            raise _client_gone() from None

    async def read(self, kind: type[P]) -> P | None:
        """The client's next message; None when it has sent its last. Raises `Refusal`."""
        data = await self._context.read()
        return None if data is grpc.aio.EOF else self._parse(kind, data)

    async def request(self, kind: type[P]) -> P:
        """The message of a call that has one. Raises `Refusal`."""
        message = await self.within_idle_limit(self.read(kind))
        if message is None:
            raise invalid(f"the call holds no {kind.DESCRIPTOR.name}")
        return message

    async def within_idle_limit(self, waiting: Awaitable[T]) -> T:
        """What `waiting` for the client gives. Raises `Refusal` when it takes too long."""
        limit_s = self._border.idle_call_s
        try:
            async with asyncio.timeout(limit_s):
                return await waiting
        except TimeoutError:
            message = f"the call asked for nothing for {limit_s:g} s and is ended; open one when there is a request"
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, message, error_info("IDLE_CALL")) from None

    def _parse(self, kind: type[P], data: bytes) -> P:
        limit = self._border.max_request_bytes
        if len(data) > limit:
            why = f"fills a message of {len(data)} bytes; at most {limit} are allowed"
            raise invalid_field(largest_field(kind, data) or "message", why)
        return parse(kind, data)


def parse(kind: type[P], data: bytes) -> P:
    """The message of `kind` in `data`. Raises `Refusal`."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError:
        name = kind.DESCRIPTOR.name
        raise invalid(f"the message is no {name}: it is malformed, or a text in it is not UTF-8") from None
    return message


def served(method: Callable[[Call], Awaitable[None]], border: Border, places: Places) -> Handler:
    """The handler of a method that reads and writes the call as it likes."""

    async def handle(_requests: Any, context: Context) -> None:
        try:
            async with places.taken():
                await method(Call(context, border))
        except Refusal as refusal:
            await _abort(context, refusal)
        except Exception:
            log.exception("a call failed")
            await _abort(context, internal())

    return grpc.stream_stream_rpc_method_handler(handle)


def answering(kind: type[P], method: Callable[[P], Awaitable[Proto]]) -> Callable[[Call], Awaitable[None]]:
    """A method that answers one message with one."""

    async def answer(call: Call) -> None:
        await call.write(await method(await call.request(kind)))

    return answer


async def _abort(context: Context, refusal: Refusal) -> NoReturn:
    try:
        await context.abort(refusal.code, refusal.message, refusal.trailers())
    except grpc.aio.InternalError:
        raise _client_gone() from None


def _client_gone() -> asyncio.CancelledError:
    """What the library would raise a moment later: an operation on the call has found it closed."""
    return asyncio.CancelledError("the client is gone")
