"""Server reflection: what the server serves, for tools such as grpcurl."""

from collections.abc import Sequence

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.reflection import aio as reflection_aio

from services.router.inference import SERVICE

V1 = "grpc.reflection.v1.ServerReflection"
V1_ALPHA = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"].full_name
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
SERVICES: Sequence[str] = (SERVICE, HEALTH, V1, V1_ALPHA)


def add_reflection(server: grpc.aio.Server) -> None:
    """Serves both versions, whose messages are the same on the wire; the library has only the older one."""
    servicer = reflection_aio.ReflectionServicer(SERVICES)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handlers = grpc.method_handlers_generic_handler(V1, {"ServerReflectionInfo": handler})
    server.add_generic_rpc_handlers((handlers,))
