"""The typed client of `headway.v1.Inference`, for threads (`Client`) and for asyncio (`AsyncClient`).

    with Client("127.0.0.1:50051") as client:
        for delta in client.generate("Once upon a time", max_tokens=40):
            print(delta.text, end="")

A prompt is a text, a list of token ids, a list of chat messages (`{"role": ..., "content": ...}`), or a whole
`GenerateRequest`. Keyword parameters are those of `Params`; what is left out takes the server's default.

What is tried again: a call that found no server (UNAVAILABLE) before its first message, after a growing, jittered
pause; a refusal that names a pause (RESOURCE_EXHAUSTED with RetryInfo), after that pause, where the deadline leaves room
for it; and a stream that broke after tokens came, by `resume`: prompt, tokens received and seed are sent again and the
text goes on. Nothing else is, and no token is delivered twice.

    HeadwayError
      +-- InvalidRequest      it can never be served as it is, or not even be sent; `violations` names the fields
      +-- NotFound            no such model, or no live request of that id
      +-- AlreadyExists       a live request has that id
      +-- FailedPrecondition  another model is served than the one that a resumed answer began with
      +-- NotAllowed          the caller may not
      +-- Overloaded          a full queue or a quota; `retry_after_s` where the server named one
      +-- DeadlineExceeded    `timeout_s` has passed
      +-- Aborted             by a call of `abort` that named it
      +-- Unsupported         not served here
      +-- Unavailable         no server, or one that is going away
      +-- ServerFault         the server's own mistake
"""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, Unpack

import grpc
import grpc.aio

from headway._client.answer import Completion, Delta
from headway._client.attempts import RetryPolicy
from headway._client.calls import Calls, Unary
from headway._client.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    HeadwayError,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Overloaded,
    ServerFault,
    Unavailable,
    Unsupported,
    Violation,
)
from headway._client.request import Params, Prompt
from headway._client.stream import AsyncStream, Stream
from headway.v1 import inference_pb2_grpc

__all__ = [
    "DEFAULT_ADDRESS",
    "Aborted",
    "AlreadyExists",
    "AsyncChat",
    "AsyncClient",
    "AsyncStream",
    "Chat",
    "Client",
    "Completion",
    "DeadlineExceeded",
    "Delta",
    "FailedPrecondition",
    "HeadwayError",
    "InvalidRequest",
    "NotAllowed",
    "NotFound",
    "Overloaded",
    "Params",
    "Prompt",
    "RetryPolicy",
    "ServerFault",
    "Stream",
    "Unavailable",
    "Unsupported",
    "Violation",
]

DEFAULT_ADDRESS = "127.0.0.1:50051"
_LOOPBACK = ("127.", "localhost:", "[::1]:")

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(call: Callable[Concatenate[Calls, P], Unary[T]]) -> "Callable[Concatenate[Client, P], T]":
    """The method of `Client` that makes `call`."""

    @functools.wraps(call)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._reply(call(self._calls, *args, **kwargs))

    return method


def _awaiting(
    call: Callable[Concatenate[Calls, P], Unary[T]],
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]":
    """The method of `AsyncClient` that makes `call`."""

    @functools.wraps(call)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._reply(call(self._calls, *args, **kwargs))

    return method


class _BaseClient:
    """What both clients share: the channel, and how a call is opened on it."""

    _transport: ClassVar[Any]  # grpc or grpc.aio

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        retry: RetryPolicy | None = None,
    ) -> None:
        """A client of the server at `address` ("host:port" or "unix:path"), in the clear unless `credentials` are given."""
        options = _channel_options(address)
        if credentials is None:
            self._channel = self._transport.insecure_channel(address, options)
        else:
            self._channel = self._transport.secure_channel(address, credentials, options)
        self._stub: Any = inference_pb2_grpc.InferenceStub(self._channel)  # type: ignore[no-untyped-call]
        self._calls = Calls(address, retry or RetryPolicy())
        self._metadata = tuple(metadata)

    def _open_stream(self, request: Any, timeout_s: float | None) -> Any:
        return self._stub.Generate(request, timeout=timeout_s, metadata=self._metadata)

    def _open(self, unary: Unary[Any]) -> Any:
        method = getattr(self._stub, unary.method)
        return method(unary.request, timeout=unary.attempts.time_left_s(), metadata=self._metadata)


class Client(_BaseClient):
    """A client for threads; safe to share between them."""

    _transport: ClassVar[Any] = grpc

    def generate(self, prompt: Prompt, *, timeout_s: float | None = None, **params: Unpack[Params]) -> Stream:
        """The answer as it grows; nothing is sent before the first delta is asked for."""
        return Stream(self._calls.stream(prompt, params, timeout_s), self._open_stream)

    complete = _blocking(Calls.complete)
    tokenize = _blocking(Calls.tokenize)
    detokenize = _blocking(Calls.detokenize)
    model = _blocking(Calls.model)
    explain = _blocking(Calls.explain)
    abort = _blocking(Calls.abort)

    def chat(self, system: str | None = None) -> "Chat":
        """A conversation that remembers itself."""
        return Chat(self, system)

    def _reply(self, unary: Unary[T]) -> T:
        while True:
            try:
                return unary.value_of(self._open(unary))
            except grpc.RpcError as error:
                pause_s = unary.pause_s(error)
            time.sleep(pause_s)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_BaseClient):
    """A client for asyncio; made and used within one event loop."""

    _transport: ClassVar[Any] = grpc.aio

    def generate(self, prompt: Prompt, *, timeout_s: float | None = None, **params: Unpack[Params]) -> AsyncStream:
        """The answer as it grows; nothing is sent before the first delta is asked for."""
        return AsyncStream(self._calls.stream(prompt, params, timeout_s), self._open_stream)

    complete = _awaiting(Calls.complete)
    tokenize = _awaiting(Calls.tokenize)
    detokenize = _awaiting(Calls.detokenize)
    model = _awaiting(Calls.model)
    explain = _awaiting(Calls.explain)
    abort = _awaiting(Calls.abort)

    def chat(self, system: str | None = None) -> "AsyncChat":
        """A conversation that remembers itself."""
        return AsyncChat(self, system)

    async def _reply(self, unary: Unary[T]) -> T:
        while True:
            try:
                return unary.value_of(await self._open(unary))
            except grpc.RpcError as error:
                pause_s = unary.pause_s(error)
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _BaseChat:
    """A conversation's messages. A turn joins them when its answer is complete."""

    def __init__(self, system: str | None) -> None:
        self.messages: list[dict[str, str]] = [] if system is None else [{"role": "system", "content": system}]

    def _asked(self, text: str) -> list[dict[str, str]]:
        return [*self.messages, {"role": "user", "content": text}]

    def _answered(self, asked: list[dict[str, str]], text: str) -> None:
        self.messages = [*asked, {"role": "assistant", "content": text}]


class Chat(_BaseChat):
    """A conversation for threads."""

    def __init__(self, client: Client, system: str | None = None) -> None:
        super().__init__(system)
        self._client = client

    def send(self, text: str, *, timeout_s: float | None = None, **params: Unpack[Params]) -> Iterator[Delta]:
        """Says `text`; yields the answer as it grows."""
        messages = self._asked(text)
        with self._client.generate(messages, timeout_s=timeout_s, **params) as stream:
            yield from stream
        self._answered(messages, stream.text)


class AsyncChat(_BaseChat):
    """A conversation for asyncio."""

    def __init__(self, client: AsyncClient, system: str | None = None) -> None:
        super().__init__(system)
        self._client = client

    async def send(
        self, text: str, *, timeout_s: float | None = None, **params: Unpack[Params]
    ) -> AsyncIterator[Delta]:
        """Says `text`; yields the answer as it grows."""
        messages = self._asked(text)
        async with self._client.generate(messages, timeout_s=timeout_s, **params) as stream:
            async for delta in stream:
                yield delta
        self._answered(messages, stream.text)


def _channel_options(address: str) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", 64 << 20),
        ("grpc.enable_retries", 0),  # the rules are those of this module
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.enable_http_proxy", 0 if address.startswith(_LOOPBACK) else 1),
    ]


for _name in __all__:  # what a traceback names is imported from here
    if isinstance(_public := globals()[_name], type):
        _public.__module__ = __name__
