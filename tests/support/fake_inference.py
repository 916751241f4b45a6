"""A scripted Inference server: each call is answered by the next script, and every request is kept."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from headway.v1 import inference_pb2 as v1
from headway.v1 import inference_pb2_grpc

Script = Callable[[Any, Any], Awaitable[Any]]  # (request, context): writes messages, returns a unary answer, or aborts

SEED = 7
FINGERPRINT = "f00d"


def tokens_of(text: str) -> list[int]:
    """The fake model's tokens: one for each character."""
    return [ord(each) for each in text]


def started() -> v1.GenerateResponse:
    return v1.GenerateResponse(started=v1.Started(request_id="drawn", model="fake", fingerprint=FINGERPRINT, seed=SEED))


def delta(text: str, index: int = 0) -> v1.GenerateResponse:
    return v1.GenerateResponse(delta=v1.Delta(index=index, text=text, token_ids=tokens_of(text)))


def finished(index: int = 0) -> v1.GenerateResponse:
    return v1.GenerateResponse(
        finished=v1.Finished(
            index=index,
            reason=v1.FINISH_REASON_LENGTH,
            usage=v1.Usage(prompt_tokens=1, completion_tokens=1),
            timings=v1.Timings(time_to_first_token_s=0.01, total_s=0.02),
        )
    )


def answer(text: str) -> Script:
    """Streams `text` character by character, after what the request resumes."""

    async def script(request: Any, context: Any) -> None:
        await context.write(started())
        for each in text[len(request.resume.token_ids) :]:
            await context.write(delta(each))
        await context.write(finished())

    return script


def break_after(text: str, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE, why: str = "gone") -> Script:
    """Streams `text`, then ends the call with `code`."""

    async def script(_request: Any, context: Any) -> None:
        await context.write(started())
        for each in text:
            await context.write(delta(each))
        await context.abort(code, why)

    return script


async def sleep_forever(_request: Any, context: Any) -> None:
    """Streams one token, and never ends."""
    await context.write(started())
    await context.write(delta("a"))
    await asyncio.Event().wait()


def refuse(code: grpc.StatusCode, why: str = "refused", *details: Any) -> Script:
    """Ends the call before its first message, with google.rpc details."""

    async def script(_request: Any, context: Any) -> None:
        packed = []
        for each in details:
            packed.append(AnyMessage())
            packed[-1].Pack(each)
        status = status_pb2.Status(code=code.value[0], message=why, details=packed)
        await context.abort_with_status(rpc_status.to_status(status))

    return script


def overloaded(retry_after_s: float) -> Script:
    """A full queue that names a pause."""
    return refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full", _retry_info(retry_after_s))


def unavailable_for(retry_after_s: float) -> Script:
    """A server that is going away and names a pause."""
    return refuse(grpc.StatusCode.UNAVAILABLE, "going away", _retry_info(retry_after_s))


def _retry_info(retry_after_s: float) -> error_details_pb2.RetryInfo:
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromMilliseconds(int(retry_after_s * 1000))
    return info


def invalid(field: str, why: str) -> Script:
    """A refusal that names a field."""
    violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=why)
    details = error_details_pb2.BadRequest(field_violations=[violation])
    return refuse(grpc.StatusCode.INVALID_ARGUMENT, f"{field}: {why}", details)


def reply(message: Any) -> Script:
    """Answers a unary call."""

    async def script(_request: Any, _context: Any) -> Any:
        return message

    return script


MODEL = reply(v1.GetModelResponse(name="fake"))
"""What the server says of its model."""


class FakeInference:
    """A server on loopback in a thread of its own. `scripts` are played in order, the last one for ever after."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.requests: list[Any] = []
        self.timeouts_s: list[float | None] = []
        self.cancelled = threading.Event()  # a client went away in the middle of a call
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        self._server = grpc.aio.server()
        servicer = inference_pb2_grpc.InferenceServicer()
        for name in ("Generate", "Complete", "Tokenize", "Detokenize", "GetModel", "Explain", "Abort"):
            setattr(servicer, name, self._play)
        inference_pb2_grpc.add_InferenceServicer_to_server(servicer, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()

    async def _stop(self) -> None:
        await self._server.stop(None)
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _play(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        self.timeouts_s.append(context.time_remaining())
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        try:
            return await script(request, context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
