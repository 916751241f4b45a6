"""Server reflection: what the server serves, for tools such as grpcurl."""

from collections.abc import AsyncIterator, Sequence

import grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import aio as reflection_aio

from services.router.call_places import Places
from services.router.inference import SERVICE
from services.router.rpc import Border, Call, served

V1 = "grpc.reflection.v1.ServerReflection"
V1_ALPHA = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"].full_name
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
SERVICES: Sequence[str] = (SERVICE, HEALTH, V1, V1_ALPHA)


def reflection_handlers(border: Border, places: Places) -> tuple[grpc.GenericRpcHandler, ...]:
    """Both versions, whose messages are the same on the wire; the library has only the older one."""
    methods = {"ServerReflectionInfo": served(_reflect, border, places)}
    return tuple(grpc.method_handlers_generic_handler(version, methods) for version in (V1, V1_ALPHA))


async def _reflect(call: Call) -> None:
    servicer = reflection_aio.ReflectionServicer(SERVICES)
    async for response in servicer.ServerReflectionInfo(_questions(call), None):
        await call.write(response)


async def _questions(call: Call) -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
    while True:
        question = await call.within_idle_limit(call.read(reflection_pb2.ServerReflectionRequest))
        if question is None:
            return
        yield question
