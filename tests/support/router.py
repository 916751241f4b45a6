"""A router in this process, and what its clients hear."""

import contextlib
from dataclasses import dataclass, field

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2
from headway.v1 import inference_pb2 as api
from headway.v1 import inference_pb2_grpc

from services.router.server import RouterServer
from services.router.settings import RouterSettings
from tests.support.fake_scheduler import FakeScheduler, until

DETAILS = (error_details_pb2.BadRequest, error_details_pb2.RetryInfo, error_details_pb2.ErrorInfo)


@dataclass
class Heard:
    """One answer as its client put it together."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    messages: list = field(default_factory=list)
    started: api.Started | None = None
    finished: api.Finished | None = None

    def take(self, message: api.GenerateResponse) -> None:
        self.messages.append(message)
        self.text += message.delta.text
        self.token_ids += message.delta.token_ids
        if message.HasField("started"):
            assert self.started is None
            self.started = message.started
        if message.HasField("finished"):
            assert self.finished is None
            self.finished = message.finished


@dataclass
class Failure:
    """A refusal as its client reads it."""

    code: grpc.StatusCode
    message: str
    field: str = ""
    reason: str = ""
    retry_after_s: float | None = None


def failure_of_status(status: status_pb2.Status) -> Failure:
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    failure = Failure(code, status.message)
    for packed in status.details:
        for kind in DETAILS:
            detail = kind()
            if not packed.Unpack(detail):
                continue
            if kind is error_details_pb2.BadRequest:
                failure.field = detail.field_violations[0].field
            elif kind is error_details_pb2.RetryInfo:
                failure.retry_after_s = detail.retry_delay.ToMicroseconds() / 1e6
            else:
                failure.reason = detail.reason
    return failure


def failure_of(error: grpc.aio.AioRpcError) -> Failure:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            assert (status.code, status.message) == (error.code().value[0], error.details())
            return failure_of_status(status)
    return Failure(error.code(), error.details())


def request(text: str = "hello", **fields) -> api.GenerateRequest:
    """A request of `text`; `max_tokens` and `sampling`, `stop`, `output` as usual."""
    fields.setdefault("parts", api.PartsPrompt(parts=[api.Part(text=text)]))
    if "max_tokens" in fields:
        fields["stop"] = api.StopParams(max_tokens=fields.pop("max_tokens"), **fields.pop("stop", {}))
    for name, kind in (("stop", api.StopParams), ("sampling", api.SamplingParams), ("output", api.OutputParams)):
        if isinstance(fields.get(name), dict):
            fields[name] = kind(**fields[name])
    return api.GenerateRequest(**fields)


def of_ids(*ids: int, **fields) -> api.GenerateRequest:
    return request(parts=api.PartsPrompt(parts=[api.Part(token_ids=api.TokenIds(ids=ids))]), **fields)


async def rest_of(call) -> tuple[str, Failure | None]:
    """The text that a stream still brings, and how it fails, if it does."""
    text = ""
    try:
        while (message := await call.read()) is not grpc.aio.EOF:
            text += message.delta.text
    except grpc.aio.AioRpcError as error:
        return text, failure_of(error)
    return text, None


class Client:
    """The public API over a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.stub = inference_pb2_grpc.InferenceStub(channel)

    async def generate(self, message: api.GenerateRequest, **options) -> Heard:
        heard = Heard()
        async for response in self.stub.Generate(message, **options):
            heard.take(response)
        return heard

    async def refused(self, message: api.GenerateRequest, **options) -> Failure:
        """How Generate ends for a request that is refused before its first message."""
        try:
            heard = await self.generate(message, **options)
        except grpc.aio.AioRpcError as error:
            return failure_of(error)
        raise AssertionError(f"not refused: {heard}")


@dataclass
class Bench:
    scheduler: FakeScheduler
    server: RouterServer
    client: Client


@contextlib.asynccontextmanager
async def router(*schedulers: FakeScheduler, **settings):
    """A running router that knows its model, in front of running schedulers."""
    addresses = tuple(scheduler.address for scheduler in schedulers)
    made = RouterServer(RouterSettings(listen="127.0.0.1:0", schedulers=addresses, **settings))
    async with made as server, grpc.aio.insecure_channel(server.address) as channel:
        yield Bench(schedulers[0], server, Client(channel))


@contextlib.asynccontextmanager
async def bench(**settings):
    """One fake scheduler, and a router that is ready."""
    async with FakeScheduler() as scheduler, router(scheduler, **settings) as made:
        await until(made.server.is_ready)
        yield made
