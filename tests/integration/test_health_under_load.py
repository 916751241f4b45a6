"""Probes are answered at once, however busy the server is."""

import asyncio
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from headway.client import AsyncClient

from tests.support.served import serve

SETTINGS = {"HEADWAY_EXECUTOR_SIMULATED_SCRIPT": "random", "HEADWAY_EXECUTOR_SIMULATED_STEP_FIXED_US": "2000"}
NUM_STREAMS = 64
NUM_PROBES = 100
ANSWER_S = 1.0  # five times the promise
SERVICES = ("headway.v1.Inference", "liveness")


async def stream_on(client, number, counts):
    """Answers without an end: one request after the other, each token counted."""
    while True:
        async for delta in client.generate([30 + number] * 60, max_tokens=1000, ignore_eos=True, seed=number):
            counts[number] += len(delta.token_ids)


async def test_probes_are_answered_beside_64_streams(tmp_path):
    """100 probes each of readiness and liveness, while every one of 64 streams goes on: SERVING, each within 1 s."""
    waited_s = {service: [] for service in SERVICES}
    counts = [0] * NUM_STREAMS
    with serve(tmp_path, environment=SETTINGS) as served:
        options = [("grpc.enable_http_proxy", 0)]
        async with AsyncClient(served.address) as client, grpc.aio.insecure_channel(served.address, options) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            streams = [asyncio.ensure_future(stream_on(client, number, counts)) for number in range(NUM_STREAMS)]
            while not all(counts):
                await asyncio.sleep(0.02)
            before = list(counts)
            for _ in range(NUM_PROBES):
                for service in SERVICES:
                    begun_s = time.monotonic()
                    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10 * ANSWER_S)
                    waited_s[service].append(time.monotonic() - begun_s)
                    assert answer.status == health_pb2.HealthCheckResponse.SERVING
                await asyncio.sleep(0.02)
            assert not any(stream.done() for stream in streams)
            assert all(now > was for now, was in zip(counts, before, strict=True)), "a stream stood still"
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)
    assert {service: max(waited) for service, waited in waited_s.items() if max(waited) > ANSWER_S} == {}
