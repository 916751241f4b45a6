"""The gRPC face in one process: a real server and real calls; the test stands in the core's place."""

import asyncio

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.runtime.lifecycle import BadSetting
from services.scheduler.commands import CancelById, Explain
from services.scheduler.grpc_server import LIVENESS, READINESS, GrpcServer
from services.scheduler.inbox import Inbox
from services.scheduler.servicer import SERVICE
from services.wire import codec
from services.wire.event_log import RoutedCancel, RoutedStop, RoutedSubmit, SessionClosed, SessionOpened
from services.wire.execution import GREEDY
from services.wire.message import int32_column
from services.wire.scheduling import (
    Cancel,
    CancelByIdRequest,
    CancelByIdResponse,
    ExplainByIdRequest,
    ExplainByIdResponse,
    Load,
    RouterHello,
    SchedulerHello,
    StepTokens,
    Stop,
    Submit,
    ToRouter,
    ToScheduler,
)

_SUBMIT = Submit(
    handle=1, request_id="r", token_ids=int32_column([1]), prompt_length=1, chain_root=bytes(16), sampling=GREEDY
)


class Bench:
    def __init__(self, directory):
        self.address = f"unix:{directory}/s"
        self.inbox = Inbox()
        self.server = GrpcServer(self.address, self.inbox, 100_000)
        self.server.start()
        self.hub = self.server.hub
        self.channel = grpc.aio.insecure_channel(self.address)

    async def commands(self, count):
        """The next commands for the core."""
        taken = []
        async with asyncio.timeout(10):
            while len(taken) < count:
                taken += self.inbox.take()
                await asyncio.sleep(0.005)
        return taken

    async def attach(self):
        call = self.channel.stream_stream(f"/{SERVICE}/Attach")()
        await call.write(codec.encode(ToScheduler(body=RouterHello(router="r"))))
        return call

    async def ask(self, method, request, answer):
        data = await self.channel.unary_unary(f"/{SERVICE}/{method}")(codec.encode(request), timeout=10)
        return codec.decode(answer, data)

    async def health(self, service):
        response = await health_pb2_grpc.HealthStub(self.channel).Check(
            health_pb2.HealthCheckRequest(service=service), timeout=10
        )
        return response.status == health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
async def bench(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("g"))
    yield bench
    await bench.channel.close()
    await asyncio.to_thread(bench.server.stop, 0.0)
    bench.inbox.close()


async def test_a_stream_becomes_commands_and_messages(bench):
    """What a router says reaches the core in order, between the opening and the closing of its session."""
    call = await bench.attach()
    (opened,) = await bench.commands(1)
    assert opened == SessionOpened(router=opened.router)
    for body in (_SUBMIT, Stop(handle=1, accepted_count=2), Cancel(handle=1)):
        await call.write(codec.encode(ToScheduler(body=body)))
    assert await bench.commands(3) == [
        RoutedSubmit(router=opened.router, submit=_SUBMIT),
        RoutedStop(router=opened.router, stop=Stop(handle=1, accepted_count=2)),
        RoutedCancel(router=opened.router, cancel=Cancel(handle=1)),
    ]
    bench.hub.deliver(
        [(opened.router, ToRouter(body=SchedulerHello())), (opened.router, ToRouter(body=StepTokens(step=4)))]
    )
    assert codec.decode(ToRouter, await call.read()).body == SchedulerHello()
    assert codec.decode(ToRouter, await call.read()).body == StepTokens(step=4)
    await call.done_writing()
    assert await bench.commands(1) == [SessionClosed(router=opened.router)]


async def test_a_cancelled_stream_closes_its_session(bench):
    """A router that vanishes is a session that ends."""
    call = await bench.attach()
    (opened,) = await bench.commands(1)
    call.cancel()
    assert await bench.commands(1) == [SessionClosed(router=opened.router)]


async def test_a_malformed_message_ends_its_stream_in_words(bench):
    """INVALID_ARGUMENT, and the session is closed."""
    call = await bench.attach()
    (opened,) = await bench.commands(1)
    await call.write(b"\xff")
    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert await bench.commands(1) == [SessionClosed(router=opened.router)]


async def test_a_slow_reader_is_closed_with_a_status(bench):
    """More than the bound waiting for one router ends its session; the core is told."""
    call = await bench.attach()
    (opened,) = await bench.commands(1)
    tokens = StepTokens(
        step=1, handles=int32_column([1]), counts=int32_column([10_000]), tokens=int32_column([7] * 10_000)
    )
    for _ in range(40):
        bench.hub.deliver([(opened.router, ToRouter(body=tokens))])
    assert await bench.commands(1) == [SessionClosed(router=opened.router)]

    async def read_all():
        while await call.read() is not grpc.aio.EOF:
            pass

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(read_all(), 10)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_questions_are_put_to_the_core_and_answered_from_its_thread(bench):
    """Explain and CancelById wait for the answer that another thread gives."""

    async def answer(kind, with_what):
        (command,) = await bench.commands(1)
        assert isinstance(command, kind)
        await asyncio.to_thread(command.answer, with_what)

    explaining = asyncio.create_task(
        bench.ask("Explain", ExplainByIdRequest(tenant="", request_id="r"), ExplainByIdResponse)
    )
    await answer(Explain, ExplainByIdResponse())
    assert await explaining == ExplainByIdResponse()
    cancelling = asyncio.create_task(
        bench.ask("CancelById", CancelByIdRequest(tenant="", request_id="r"), CancelByIdResponse)
    )
    await answer(CancelById, CancelByIdResponse(cancelled=3))
    assert await cancelling == CancelByIdResponse(cancelled=3)


async def test_a_malformed_question_is_an_invalid_argument(bench):
    """Unary calls refuse garbage like streams do."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await bench.channel.unary_unary(f"/{SERVICE}/Explain")(b"\xff", timeout=10)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_health_tells_liveness_and_readiness_apart(bench):
    """Liveness is always yes; readiness follows the core's word, and is lost when the core does not speak."""
    assert await bench.health(LIVENESS)
    assert not await bench.health(READINESS)
    bench.hub.tell_load(Load(making_progress=True))
    async with asyncio.timeout(5):
        while not await bench.health(READINESS):
            await asyncio.sleep(0.01)
        assert await bench.health("")
        while await bench.health(READINESS):  # nobody tells a load any more
            await asyncio.sleep(0.01)
    assert await bench.health(LIVENESS)


async def test_an_address_that_is_taken_is_a_bad_setting(bench, tmp_path):
    """Two servers cannot share a tcp port, and a unix socket needs its directory."""
    one = GrpcServer("127.0.0.1:0", bench.inbox, 1000)
    port = one.start()
    two = GrpcServer(f"127.0.0.1:{port}", bench.inbox, 1000)
    with pytest.raises(BadSetting):
        await asyncio.to_thread(two.start)
    three = GrpcServer(f"unix:{tmp_path}/none/s", bench.inbox, 1000)
    with pytest.raises(BadSetting):
        await asyncio.to_thread(three.start)
    await asyncio.to_thread(one.stop, 0.0)


async def test_stopping_writes_what_waits(bench):
    """What was delivered before the stop arrives, then the stream ends without an error."""
    call = await bench.attach()
    (opened,) = await bench.commands(1)
    bench.hub.deliver([(opened.router, ToRouter(body=StepTokens(step=number))) for number in range(50)])
    stopping = asyncio.create_task(asyncio.to_thread(bench.server.stop, 5.0))
    steps = []
    while (data := await call.read()) is not grpc.aio.EOF:
        steps.append(codec.decode(ToRouter, data).body.step)
    assert steps == list(range(50))
    assert await call.code() is grpc.StatusCode.OK
    await stopping
