"""Health, as load balancers and probes ask for it (grpc.health.v1).

"headway.v1.Inference" and the empty name, which balancers ask for unless told otherwise, are readiness: a request sent now
would be computed. "liveness" serves while the process answers at all, whatever schedulers and executors do.
"""

import asyncio
from collections.abc import Callable

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from services.router.call_places import Places
from services.router.inference import SERVICE
from services.router.rpc import Border, Call, answering, served
from services.runtime.errors import not_found

LIVENESS = "liveness"
WHOLE_SERVER = ""
READINESS = SERVICE
_LOOK_EVERY_S = 0.1

_Status = int  # HealthCheckResponse.ServingStatus


class Health:
    """Answers from memory; it waits for nothing but the question."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready

    def handlers(self, border: Border, checks: Places, watches: Places) -> grpc.GenericRpcHandler:
        """What the gRPC server serves."""
        return grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health",
            {
                "Check": served(answering(HealthCheckRequest, self.check), border, checks),
                "Watch": served(self.watch, border, watches),
            },
        )

    async def check(self, request: HealthCheckRequest) -> HealthCheckResponse:
        status = self._status(request.service)
        if status == HealthCheckResponse.SERVICE_UNKNOWN:
            raise not_found(f"service: known are {READINESS!r} and {LIVENESS!r}", "SERVICE_UNKNOWN")
        return HealthCheckResponse(status=status)

    async def watch(self, call: Call) -> None:
        service = (await call.request(HealthCheckRequest)).service
        told: _Status | None = None
        while True:
            status = self._status(service)
            if status != told:
                told = status
                await call.write(HealthCheckResponse(status=status))
            # Readiness also ends by time passing, which nobody announces.
            await asyncio.sleep(_LOOK_EVERY_S)

    def _status(self, service: str) -> _Status:
        if service == LIVENESS:
            status = HealthCheckResponse.SERVING
        elif service not in {READINESS, WHOLE_SERVER}:
            status = HealthCheckResponse.SERVICE_UNKNOWN
        else:
            status = HealthCheckResponse.SERVING if self._is_ready() else HealthCheckResponse.NOT_SERVING
        return int(status)
