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
import contextlib
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypedDict, TypeVar, Unpack

import grpc
import grpc.aio
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from headway.v1 import inference_pb2 as v1
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

_Message = TypeVar("_Message", bound=Message)

Prompt = str | Sequence[int] | Sequence[Mapping[str, str]] | v1.GenerateRequest

# ---- errors


@dataclass(frozen=True, slots=True)
class Violation:
    """A field of the request, and what is wrong with it."""

    field: str
    description: str


class HeadwayError(Exception):
    """Base of all that the client raises for a call. `code` is the gRPC status; the text is the server's."""

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        violations: Sequence[Violation] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.violations = tuple(violations)
        self.retry_after_s = retry_after_s


class InvalidRequest(HeadwayError): ...


class NotFound(HeadwayError): ...


class AlreadyExists(HeadwayError): ...


class FailedPrecondition(HeadwayError): ...


class NotAllowed(HeadwayError): ...


class Overloaded(HeadwayError): ...


class DeadlineExceeded(HeadwayError): ...


class Aborted(HeadwayError): ...


class Unsupported(HeadwayError): ...


class Unavailable(HeadwayError): ...


class ServerFault(HeadwayError): ...


_ERROR_OF_CODE: dict[grpc.StatusCode, type[HeadwayError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.UNAUTHENTICATED: NotAllowed,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    # Servers of Headway never end a call so; a proxy or a server that goes away does. Our own cancel raises nothing.
    grpc.StatusCode.CANCELLED: Unavailable,
}
_NO_CONNECTION = ("failed to connect", "connections to all backends failing", "Connection refused", "resolution failed")
_BROKEN_TRANSPORT = ("RST_STREAM", "Stream removed", "GOAWAY", "Socket closed", "Connection reset")


def _error_of(call: Any, address: str, timeout_s: float | None) -> HeadwayError:
    """The error that ended `call`, an `RpcError` of grpc or grpc.aio, of a request that had `timeout_s` in all."""
    code, message = call.code(), call.details() or ""
    details = _details(call.trailing_metadata() or ())
    kind = _ERROR_OF_CODE.get(code, ServerFault)
    if kind is ServerFault and details is None and any(mark in message for mark in _BROKEN_TRANSPORT):
        kind = Unavailable  # the transport's words for a connection that broke
    if details is None and kind is Unavailable and any(mark in message for mark in _NO_CONNECTION):
        message = f"no server at {address}"
    elif details is None and kind is DeadlineExceeded and timeout_s is not None:
        message = f"not answered within {timeout_s:g} s"
    violations: list[Violation] = []
    retry_after_s = None
    for detail in details.details if details else ():
        bad_request, retry_info = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(bad_request):
            violations += [Violation(each.field, each.description) for each in bad_request.field_violations]
        elif detail.Unpack(retry_info):
            retry_after_s = retry_info.retry_delay.ToMilliseconds() / 1000
    return kind(message or code.name, code=code, violations=violations, retry_after_s=retry_after_s)


def _details(trailing_metadata: Any) -> status_pb2.Status | None:
    for key, value in trailing_metadata:
        if key == "grpc-status-details-bin":
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                return None
    return None


# ---- requests


class Params(TypedDict, total=False):
    """Every parameter of a request, as `headway/v1/inference.proto` describes it."""

    model: str
    request_id: str
    n: int
    priority: int
    latency_class: str
    labels: Mapping[str, str]
    # how a token is drawn
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    allowed_token_ids: Sequence[int]
    banned_token_ids: Sequence[int]
    # when the answer ends
    max_tokens: int
    min_tokens: int
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    include_stop_string: bool
    # what comes beside the text
    logprobs: int
    prompt_logprobs: int
    skip_special_tokens: bool
    # how the prompt is read
    add_generation_prompt: bool
    add_special_tokens: bool


_GROUPS: dict[str, Any] = {"sampling": v1.SamplingParams, "stop": v1.StopParams, "output": v1.OutputParams}
_RANGES = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_PLACES = {
    **{field: (group, field) for group, kind in _GROUPS.items() for field in kind.DESCRIPTOR.fields_by_name},
    "stop": ("stop", "strings"),
    "stop_token_ids": ("stop", "token_ids"),
}


def _request_of(prompt: Prompt, params: Params) -> v1.GenerateRequest:
    if isinstance(prompt, v1.GenerateRequest):
        if params:
            raise TypeError("a GenerateRequest carries its own parameters")
        request = v1.GenerateRequest()
        request.CopyFrom(prompt)
        return request
    given: dict[str, Any] = dict(params)
    if unknown := given.keys() - Params.__annotations__.keys():
        raise TypeError(f"no parameter is called {', '.join(sorted(unknown))}")
    fields = _prompt_fields(prompt, given.pop("add_generation_prompt", None), given.pop("add_special_tokens", None))
    request = v1.GenerateRequest(**fields)
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    for name, value in given.items():
        group, field = _PLACES.get(name, ("", name))
        target: Any = getattr(request, group) if group else request
        with _filling(f"{group}.{field}" if group else field, target.DESCRIPTOR.fields_by_name[field].type):
            target.MergeFrom(type(target)(**{field: value}))
    return request


@contextlib.contextmanager
def _filling(path: str, kind: int = FieldDescriptor.TYPE_MESSAGE) -> Iterator[None]:
    """Within, the field at `path` is given its value. Raises `InvalidRequest` for one that it cannot hold."""
    try:
        yield
    except UnicodeEncodeError:
        why = "is no text: it holds half of a surrogate pair, as bytes do that were not UTF-8"
    except (ValueError, OverflowError):  # protobuf's, for a number that does not fit; of a wrong type it is a TypeError
        least, most = _RANGES.get(kind, (None, None))
        why = "holds a number that is out of range" if least is None else f"must be from {least} to {most}"
    else:
        return
    code = grpc.StatusCode.INVALID_ARGUMENT
    raise InvalidRequest(f"{path}: {why}", code=code, violations=[Violation(path, why)])


def _made(kind: Callable[..., _Message], path: str, **fields: Any) -> _Message:
    """A message whose field at `path` is the caller's."""
    with _filling(path):
        return kind(**fields)


def _prompt_fields(
    prompt: str | Sequence[int] | Sequence[Mapping[str, str]],
    add_generation_prompt: bool | None,
    add_special_tokens: bool | None,
) -> dict[str, Any]:
    """`prompt` as the oneof of GenerateRequest and of TokenizeRequest."""
    if isinstance(prompt, str):
        part = _made(v1.Part, "parts", text=prompt)
        return {"parts": v1.PartsPrompt(parts=[part], add_special_tokens=add_special_tokens)}
    if len(prompt) and isinstance(prompt[0], Mapping):
        with _filling("chat.messages"):
            messages = [
                v1.ChatMessage(role=each["role"], content=[v1.Part(text=each["content"])])  # type: ignore[index]
                for each in prompt
            ]
        return {"chat": v1.ChatPrompt(messages=messages, add_generation_prompt=add_generation_prompt)}
    ids = _made(v1.TokenIds, "parts", ids=prompt)
    return {"parts": v1.PartsPrompt(parts=[v1.Part(token_ids=ids)], add_special_tokens=add_special_tokens)}


# ---- when to try again; no I/O, no clock but the deadline's


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and after which pauses, a call is made again. A token that arrives starts the count anew."""

    max_attempts: int = 10
    first_pause_s: float = 0.1
    max_pause_s: float = 2.0


class _Attempts:
    """The calls that one request has made since it last made progress, under one deadline."""

    def __init__(self, policy: RetryPolicy, timeout_s: float | None, address: str) -> None:
        self._policy = policy
        self._timeout_s = timeout_s
        self._address = address
        self._deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        self.failures = 0

    def time_left_s(self) -> float | None:
        return None if self._deadline_s is None else self._deadline_s - time.monotonic()

    def error_of(self, call: Any) -> HeadwayError:
        """The error that ended `call`."""
        return _error_of(call, self._address, self._timeout_s)

    def progressed(self) -> None:
        self.failures = 0

    def pause_s(self, error: HeadwayError) -> float:
        """How long to wait before the next call. Raises `error` where there is to be none."""
        self.failures += 1
        if isinstance(error, Overloaded) and error.retry_after_s is not None:
            pause_s = error.retry_after_s * random.uniform(1.0, 1.2)  # noqa: S311 - never before the server's time
        elif isinstance(error, Unavailable) or (isinstance(error, AlreadyExists) and self.failures > 1):
            # AlreadyExists after a failure: the server has not yet noticed that our own broken call is gone.
            growing_s = self._policy.first_pause_s * 2.0 ** (self.failures - 1)
            pause_s = min(growing_s, self._policy.max_pause_s) * random.uniform(0.8, 1.2)  # noqa: S311
            pause_s = max(pause_s, error.retry_after_s or 0.0)
        else:
            raise error
        left_s = self.time_left_s()
        if self.failures >= self._policy.max_attempts or (left_s is not None and pause_s >= left_s):
            raise error
        return pause_s


# ---- answers


@dataclass(frozen=True, slots=True)
class Delta:
    """What an answer grew by. `finished` is there in the last delta of an answer."""

    text: str
    token_ids: tuple[int, ...] = ()
    index: int = 0  # which of the n answers
    logprobs: tuple[v1.TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[v1.TokenLogprobs, ...] = ()
    finished: v1.Finished | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole reply; `text`, `token_ids` and `finished` are those of its first answer."""

    response: v1.CompleteResponse

    @property
    def answers(self) -> Sequence[v1.Answer]:
        return self.response.answers

    @property
    def text(self) -> str:
        return self.answers[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(self.answers[0].token_ids)

    @property
    def finished(self) -> v1.Finished:
        return self.answers[0].finished


class _Exchange:
    """One request over as many calls as it takes: what was received, what to send next. No I/O."""

    def __init__(self, request: v1.GenerateRequest, attempts: _Attempts) -> None:
        self._request = request
        self._unfinished = set(range(request.n if request.HasField("n") else 1))
        self._token_ids = list(request.resume.token_ids)
        self.attempts = attempts
        self.started: v1.Started | None = None
        self.texts: dict[int, str] = {}

    @property
    def done(self) -> bool:
        return not self._unfinished

    def request(self) -> v1.GenerateRequest:
        """The request of the next call: whole at first, later what continues the answer."""
        if self.started is None:
            return self._request
        request = v1.GenerateRequest()
        request.CopyFrom(self._request)
        if self._token_ids:
            seed, fingerprint = self.started.seed, self.started.fingerprint
            request.resume.CopyFrom(v1.Resume(token_ids=self._token_ids, seed=seed, fingerprint=fingerprint))
            request.output.ClearField("prompt_logprobs")  # they came before the first token
        else:
            request.sampling.seed = self.started.seed
        return request

    def take(self, response: v1.GenerateResponse) -> Delta | None:
        """What `response` adds, if anything."""
        if response.HasField("started") and self.started is None:
            self.started = response.started
        delta, finished = response.delta, response.finished if response.HasField("finished") else None
        if not response.HasField("delta") and finished is None:
            return None
        index = delta.index if response.HasField("delta") else response.finished.index
        if delta.token_ids:
            self._token_ids += delta.token_ids
            self.attempts.progressed()
        self.texts[index] = self.texts.get(index, "") + delta.text
        if finished is not None:
            self._unfinished.discard(index)
        return Delta(
            text=delta.text,
            token_ids=tuple(delta.token_ids),
            index=index,
            logprobs=tuple(delta.logprobs),
            prompt_logprobs=tuple(delta.prompt_logprobs),
            finished=finished,
        )

    def pause_s(self, error: HeadwayError) -> float:
        """How long to wait before the answer is continued. Raises `error` where it cannot be."""
        if self._token_ids and self._request.n > 1:
            raise error  # only a single answer can be resumed
        return self.attempts.pause_s(error)


class _BaseStream:
    """What both streams tell of the answer. Before the first message came, its facts are empty."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    @property
    def text(self) -> str:
        """The first answer's text so far."""
        return self._exchange.texts.get(0, "")

    @property
    def started(self) -> v1.Started:
        """Request id, model, fingerprint and seed in use."""
        return self._exchange.started or v1.Started()


_NO_LAST_WORD = "the stream ended without a last word"


class Stream(_BaseStream):
    """An answer as it grows: iterate over its deltas. `cancel()`, from any thread, ends it; so does leaving `with`."""

    def __init__(self, open_call: Callable[[v1.GenerateRequest, float | None], Any], exchange: _Exchange) -> None:
        super().__init__(exchange)
        self._open_call = open_call
        self._call: Any = None
        self._cancelled = threading.Event()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delta:
        exchange = self._exchange
        while not self._cancelled.is_set():
            try:
                delta = exchange.take(next(self._running_call()))
            except StopIteration:
                if exchange.done:
                    raise
                raise ServerFault(_NO_LAST_WORD) from None
            except grpc.RpcError as error:
                self._call = None
                if exchange.done:
                    break  # only the status was lost
                if not self._cancelled.is_set():
                    self._cancelled.wait(exchange.pause_s(exchange.attempts.error_of(error)))
                continue
            if delta is not None:
                return delta
        self.cancel()
        raise StopIteration

    def _running_call(self) -> Any:
        if self._call is None:
            self._call = self._open_call(self._exchange.request(), self._exchange.attempts.time_left_s())
            if self._cancelled.is_set():
                self._call.cancel()
        return self._call

    def cancel(self) -> None:
        self._cancelled.set()
        if (call := self._call) is not None:
            call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


class AsyncStream(_BaseStream):
    """An answer as it grows: iterate over its deltas. `cancel()` ends it; so does leaving `async with`."""

    def __init__(self, open_call: Callable[[v1.GenerateRequest, float | None], Any], exchange: _Exchange) -> None:
        super().__init__(exchange)
        self._open_call = open_call
        self._call: Any = None
        self._cancelled = asyncio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        exchange = self._exchange
        while not self._cancelled.is_set():
            try:
                response = await self._read()
            except HeadwayError as error:
                if exchange.done:
                    break  # only the status was lost
                await self._pause(error)
                continue
            if response is grpc.aio.EOF:
                if exchange.done:
                    break
                raise ServerFault(_NO_LAST_WORD)
            if (delta := exchange.take(response)) is not None:
                return delta
        self.cancel()
        raise StopAsyncIteration

    async def _read(self) -> Any:
        if self._call is None:
            self._call = self._open_call(self._exchange.request(), self._exchange.attempts.time_left_s())
        try:
            return await self._call.read()
        except grpc.RpcError as error:
            raise self._exchange.attempts.error_of(error) from None
        except asyncio.CancelledError:
            # grpc.aio raises this for the status CANCELLED as well, whoever it came from.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self.cancel()
                raise
            raise Unavailable("the server cancelled the call", code=grpc.StatusCode.CANCELLED) from None

    async def _pause(self, error: HeadwayError) -> None:
        self._call = None
        if self._cancelled.is_set():
            return
        pause_s = self._exchange.pause_s(error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._cancelled.wait(), pause_s)

    def cancel(self) -> None:
        self._cancelled.set()
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()


# ---- clients


def _channel_options(address: str) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", 64 << 20),
        ("grpc.enable_retries", 0),  # the rules are those of this module
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.enable_http_proxy", 0 if address.startswith(_LOOPBACK) else 1),
    ]


class _BaseClient:
    """What both clients share: how a request is made of what the caller gives."""

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        retry: RetryPolicy | None = None,
    ) -> None:
        """A client of the server at `address` ("host:port" or "unix:path"), in the clear unless `credentials` are given."""
        self._channel = self._open_channel(address, credentials)
        self._stub: Any = inference_pb2_grpc.InferenceStub(self._channel)  # type: ignore[no-untyped-call]
        self._address = address
        self._metadata = tuple(metadata)
        self._retry = retry or RetryPolicy()

    def _open_channel(self, address: str, credentials: grpc.ChannelCredentials | None) -> Any:
        raise NotImplementedError

    def _attempts(self, timeout_s: float | None) -> _Attempts:
        return _Attempts(self._retry, timeout_s, self._address)

    def _exchange(self, prompt: Prompt, params: Params, timeout_s: float | None) -> _Exchange:
        return _Exchange(_request_of(prompt, params), self._attempts(timeout_s))

    def _open_stream(self, request: v1.GenerateRequest, timeout_s: float | None) -> Any:
        return self._stub.Generate(request, timeout=timeout_s, metadata=self._metadata)


class Client(_BaseClient):
    """A client for threads; safe to share between them."""

    def _open_channel(self, address: str, credentials: grpc.ChannelCredentials | None) -> Any:
        options = _channel_options(address)
        if credentials is None:
            return grpc.insecure_channel(address, options)
        return grpc.secure_channel(address, credentials, options)

    def generate(self, prompt: Prompt, *, timeout_s: float | None = None, **params: Unpack[Params]) -> Stream:
        """The answer as it grows; nothing is sent before the first delta is asked for."""
        return Stream(self._open_stream, self._exchange(prompt, params, timeout_s))

    def complete(self, prompt: Prompt, *, timeout_s: float | None = None, **params: Unpack[Params]) -> Completion:
        """The whole answer, or answers."""
        return Completion(self._call(self._stub.Complete, _request_of(prompt, params), timeout_s))

    def chat(self, system: str | None = None) -> "Chat":
        """A conversation that remembers itself."""
        return Chat(self, system)

    def tokenize(
        self,
        prompt: str | Sequence[Mapping[str, str]],
        *,
        model: str = "",
        add_generation_prompt: bool | None = None,
        add_special_tokens: bool | None = None,
        timeout_s: float | None = None,
    ) -> list[int]:
        """The exact tokens that `prompt` becomes."""
        fields = _prompt_fields(prompt, add_generation_prompt, add_special_tokens)
        request = _made(v1.TokenizeRequest, "model", model=model, **fields)
        return list(self._call(self._stub.Tokenize, request, timeout_s).token_ids)

    def detokenize(
        self,
        token_ids: Sequence[int],
        *,
        model: str = "",
        skip_special_tokens: bool | None = None,
        timeout_s: float | None = None,
    ) -> str:
        """The text of `token_ids`."""
        with _filling("token_ids"):
            request = v1.DetokenizeRequest(model=model, token_ids=token_ids, skip_special_tokens=skip_special_tokens)
        return str(self._call(self._stub.Detokenize, request, timeout_s).text)

    def model(self, name: str = "", *, timeout_s: float | None = None) -> v1.GetModelResponse:
        """What is served, under which limits."""
        response: v1.GetModelResponse = self._call(
            self._stub.GetModel, _made(v1.GetModelRequest, "model", model=name), timeout_s
        )
        return response

    def explain(self, request_id: str, *, timeout_s: float | None = None) -> v1.ExplainResponse:
        """Why a live request waits, and for how long it is expected to."""
        request = v1.ExplainRequest(request_id=request_id)
        response: v1.ExplainResponse = self._call(self._stub.Explain, request, timeout_s)
        return response

    def abort(self, request_id: str, *, timeout_s: float | None = None) -> None:
        """Ends a live request."""
        self._call(self._stub.Abort, v1.AbortRequest(request_id=request_id), timeout_s)

    def _call(self, method: Any, request: Any, timeout_s: float | None) -> Any:
        attempts = self._attempts(timeout_s)
        while True:
            try:
                return method(request, timeout=attempts.time_left_s(), metadata=self._metadata)
            except grpc.RpcError as error:
                pause_s = attempts.pause_s(attempts.error_of(error))
            time.sleep(pause_s)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_BaseClient):
    """A client for asyncio; made and used within one event loop."""

    def _open_channel(self, address: str, credentials: grpc.ChannelCredentials | None) -> Any:
        options = _channel_options(address)
        if credentials is None:
            return grpc.aio.insecure_channel(address, options)
        return grpc.aio.secure_channel(address, credentials, options)

    def generate(self, prompt: Prompt, *, timeout_s: float | None = None, **params: Unpack[Params]) -> AsyncStream:
        """The answer as it grows; nothing is sent before the first delta is asked for."""
        return AsyncStream(self._open_stream, self._exchange(prompt, params, timeout_s))

    async def complete(self, prompt: Prompt, *, timeout_s: float | None = None, **params: Unpack[Params]) -> Completion:
        """The whole answer, or answers."""
        return Completion(await self._call(self._stub.Complete, _request_of(prompt, params), timeout_s))

    def chat(self, system: str | None = None) -> "AsyncChat":
        """A conversation that remembers itself."""
        return AsyncChat(self, system)

    async def tokenize(
        self,
        prompt: str | Sequence[Mapping[str, str]],
        *,
        model: str = "",
        add_generation_prompt: bool | None = None,
        add_special_tokens: bool | None = None,
        timeout_s: float | None = None,
    ) -> list[int]:
        """The exact tokens that `prompt` becomes."""
        fields = _prompt_fields(prompt, add_generation_prompt, add_special_tokens)
        request = _made(v1.TokenizeRequest, "model", model=model, **fields)
        return list((await self._call(self._stub.Tokenize, request, timeout_s)).token_ids)

    async def detokenize(
        self,
        token_ids: Sequence[int],
        *,
        model: str = "",
        skip_special_tokens: bool | None = None,
        timeout_s: float | None = None,
    ) -> str:
        """The text of `token_ids`."""
        with _filling("token_ids"):
            request = v1.DetokenizeRequest(model=model, token_ids=token_ids, skip_special_tokens=skip_special_tokens)
        return str((await self._call(self._stub.Detokenize, request, timeout_s)).text)

    async def model(self, name: str = "", *, timeout_s: float | None = None) -> v1.GetModelResponse:
        """What is served, under which limits."""
        request = _made(v1.GetModelRequest, "model", model=name)
        response: v1.GetModelResponse = await self._call(self._stub.GetModel, request, timeout_s)
        return response

    async def explain(self, request_id: str, *, timeout_s: float | None = None) -> v1.ExplainResponse:
        """Why a live request waits, and for how long it is expected to."""
        request = v1.ExplainRequest(request_id=request_id)
        response: v1.ExplainResponse = await self._call(self._stub.Explain, request, timeout_s)
        return response

    async def abort(self, request_id: str, *, timeout_s: float | None = None) -> None:
        """Ends a live request."""
        await self._call(self._stub.Abort, v1.AbortRequest(request_id=request_id), timeout_s)

    async def _call(self, method: Any, request: Any, timeout_s: float | None) -> Any:
        attempts = self._attempts(timeout_s)
        while True:
            try:
                return await method(request, timeout=attempts.time_left_s(), metadata=self._metadata)
            except grpc.RpcError as error:
                pause_s = attempts.pause_s(attempts.error_of(error))
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
        self.messages = [*messages, {"role": "assistant", "content": stream.text}]


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
        self.messages = [*messages, {"role": "assistant", "content": stream.text}]
