"""Health, reflection, and what the server is bound to."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from headway.v1 import inference_pb2 as api

from services.router.server import RouterServer
from services.router.settings import RouterSettings
from services.runtime.lifecycle import BadSetting
from services.wire.scheduling import Load
from tests.support.fake_scheduler import FakeScheduler, until
from tests.support.router import bench, request, rest_of, router
from tests.support.scripts import alphabet, silent

READY = "headway.v1.Inference"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def check(made, service: str = READY) -> int:
    stub = health_pb2_grpc.HealthStub(made.client.channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)).status


async def becomes(made, status: int) -> None:
    async with asyncio.timeout(5):
        while await check(made) != status:
            await asyncio.sleep(0.02)


async def test_readiness_follows_the_scheduler():
    """Ready means: attached, executor ready, its load fresh and work moving. Liveness does not ask."""
    async with bench() as made:
        assert await check(made) == SERVING
        made.scheduler.load = Load(making_progress=False)
        await becomes(made, NOT_SERVING)
        made.scheduler.load = Load(draining=True)
        await asyncio.sleep(0.2)
        assert await check(made) == NOT_SERVING
        made.scheduler.load = Load()
        await becomes(made, SERVING)
        made.scheduler.executor_ready = False
        await made.scheduler.say_hello()
        await becomes(made, NOT_SERVING)
        assert await check(made, "liveness") == SERVING
        assert await check(made, "") == NOT_SERVING
        made.scheduler.executor_ready = True
        await made.scheduler.say_hello()
        await becomes(made, SERVING)
        await made.scheduler.stop()
        await becomes(made, NOT_SERVING)
        assert await check(made, "liveness") == SERVING
        assert await check(made, "") == NOT_SERVING


async def test_an_old_load_is_no_readiness():
    """A scheduler whose load is too old counts as one that may be stuck."""
    async with bench(load_max_age_s=0.3) as made:
        made.scheduler.load_every_s = None
        await becomes(made, NOT_SERVING)


async def test_watch_tells_each_change():
    """Watch sends the status now, and again whenever it changes."""
    async with bench() as made:
        stub = health_pb2_grpc.HealthStub(made.client.channel)
        call = stub.Watch(health_pb2.HealthCheckRequest(service=READY))
        assert (await call.read()).status == SERVING
        made.scheduler.load = Load(making_progress=False)
        assert (await asyncio.wait_for(call.read(), 5)).status == NOT_SERVING
        made.scheduler.load = Load()
        assert (await asyncio.wait_for(call.read(), 5)).status == SERVING
        drain = asyncio.ensure_future(made.server.drain())
        assert (await asyncio.wait_for(call.read(), 5)).status == NOT_SERVING
        await drain
        call.cancel()


async def test_an_unknown_service_is_named_unknown():
    """Check of an unknown service is NOT_FOUND; Watch says SERVICE_UNKNOWN and goes on, as the protocol has it."""
    async with bench() as made:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await check(made, "nobody")
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND
        call = health_pb2_grpc.HealthStub(made.client.channel).Watch(health_pb2.HealthCheckRequest(service="nobody"))
        assert (await call.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        call.cancel()


async def test_health_answers_under_load():
    """With hundreds of streams at work both probes answer within five times the promised 200 ms."""
    async with bench() as made:
        made.scheduler.script = alphabet(gap_s=0.01)
        streams = [asyncio.ensure_future(made.client.generate(request(max_tokens=200))) for _ in range(200)]
        await until(lambda: made.scheduler.num_live == 200)
        for service in ("liveness", READY):
            async with asyncio.timeout(1.0):
                assert await check(made, service) == SERVING
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_lists_and_describes(version):
    """Both versions list the services, and have the descriptor of the public one."""
    async with bench() as made:
        method = made.client.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        call = method()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        names = {service.name for service in (await call.read()).list_services_response.service}
        assert names == {
            READY,
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=READY))
        assert (await call.read()).file_descriptor_response.file_descriptor_proto
        await call.done_writing()


async def test_a_taken_port_is_refused():
    """A second router on the same port fails instead of taking half of the calls."""
    async with bench() as made:
        with pytest.raises(BadSetting, match="in use"):
            async with RouterServer(RouterSettings(listen=made.server.address, schedulers=("127.0.0.1:1",))):
                pass


async def test_a_unix_socket_is_served(tmp_path):
    """The router can be bound to a unix socket."""
    async with FakeScheduler() as scheduler, router(scheduler) as made:
        assert made.server.address.startswith("127.0.0.1:")
        settings = RouterSettings(listen=f"unix:{tmp_path}/r.sock", schedulers=(scheduler.address,))
        async with RouterServer(settings) as server, grpc.aio.insecure_channel(server.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            assert (await stub.Check(health_pb2.HealthCheckRequest(service="liveness"))).status == SERVING


async def test_explain_of_a_request_that_waits_here():
    """A request that waits in the router for a scheduler is explained as waiting."""
    async with bench() as made:
        made.scheduler.script = silent
        await made.scheduler.stop()
        call = made.client.stub.Generate(request(request_id="mine"))
        await until(lambda: made.server.fleet.num_waiting == 1)
        explained = await made.client.stub.Explain(api.ExplainRequest(request_id="mine"))
        assert [(view.state, view.waiting_for) for view in explained.answers] == [
            (api.REQUEST_STATE_WAITING, "executor")
        ]
        await made.client.stub.Abort(api.AbortRequest(request_id="mine"))
        message = await call.read()
        assert message.finished.reason == api.FINISH_REASON_ABORTED
        assert made.server.fleet.num_waiting == 0


@pytest.mark.parametrize(
    "path",
    [
        "grpc.health.v1.Health/Check",
        "grpc.health.v1.Health/Watch",
        "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ],
)
async def test_garbage_is_the_senders_fault_everywhere(path):
    """Bytes that are no message, and a call without one, end INVALID_ARGUMENT in words."""
    async with bench() as made:
        call = made.client.channel.stream_stream(f"/{path}")()
        await call.write(b"\xff\xff\xff\xff")
        failure = (await rest_of(call))[1]
        assert (failure.code, "malformed" in failure.message) == (grpc.StatusCode.INVALID_ARGUMENT, True)


async def test_checks_that_ask_nothing_do_not_keep_probes_out():
    """More open Checks without a question than the router has places for: probes are answered, watchers are counted."""
    limits = {"max_live_requests": 3, "max_many_calls": 3, "max_short_calls": 3, "max_watch_calls": 3}
    async with bench(**limits, max_concurrent_rpcs=40) as made:
        readings = []
        for _ in range(10):
            for path in ("Check", "Watch"):
                calls = [made.client.channel.stream_stream(f"/grpc.health.v1.Health/{path}")() for _ in range(10)]
                readings += [asyncio.ensure_future(rest_of(call)) for call in calls]
            await asyncio.sleep(0.05)
            for service in ("liveness", READY):
                assert await check(made, service) == SERVING
        reasons = [reading.result()[1].reason for reading in readings if reading.done()]
        assert set(reasons) == {"IDLE_CALL", "TOO_MANY_CALLS"}
        assert len(readings) - len(reasons) <= 3 + 14
        for reading in readings:
            reading.cancel()
        await asyncio.gather(*readings, return_exceptions=True)


async def test_calls_that_ask_for_nothing_do_not_crowd_out_others():
    """Past its limit a kind of call is refused with a time to come back, idle ones end, and health answers all the while."""
    limits = {"max_live_requests": 3, "max_many_calls": 3, "max_short_calls": 3, "max_watch_calls": 3}
    async with bench(**limits, max_concurrent_rpcs=64, idle_call_s=1.0) as made:
        paths = [f"{READY}/{name}" for name in ("Generate", "GenerateMany", "Tokenize")]
        paths.append("grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        calls = [made.client.channel.stream_stream(f"/{path}")() for path in paths for _ in range(6)]
        readings = [asyncio.ensure_future(rest_of(call)) for call in calls]
        await until(lambda: sum(reading.done() for reading in readings) == 12)
        for reading in filter(asyncio.Future.done, readings):
            failure = reading.result()[1]
            assert (failure.code, failure.reason, failure.retry_after_s) == (
                grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CALLS", 1.0,
            )  # fmt: skip
        assert await check(made) == SERVING
        failures = [failure for _, failure in await asyncio.wait_for(asyncio.gather(*readings), 10)]
        assert sum(failure.reason == "IDLE_CALL" for failure in failures) == 12
        assert (await made.client.generate(request(max_tokens=1))).text == "a"
