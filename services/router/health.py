"""Health, as load balancers and probes ask for it (grpc.health.v1).

"headway.v1.Inference" and the empty name, which balancers ask for unless told otherwise, are readiness: a request sent now
would be computed. "liveness" serves while the process answers at all, whatever schedulers and executors do.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from services.router.inference import SERVICE
from services.router.rpc import Context
from services.runtime.errors import not_found

LIVENESS = "liveness"
WHOLE_SERVER = ""
READINESS = SERVICE
_LOOK_EVERY_S = 0.1

_Status = int  # HealthCheckResponse.ServingStatus


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Answers from memory; it waits for nothing."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready

    async def Check(  # noqa: N802 (the protocol's name)
        self, request: HealthCheckRequest, context: Context
    ) -> HealthCheckResponse:
        status = self._status(request.service)
        if status == HealthCheckResponse.SERVICE_UNKNOWN:
            refusal = not_found(f"service: known are {READINESS!r} and {LIVENESS!r}", "SERVICE_UNKNOWN")
            await context.abort(refusal.code, refusal.message, refusal.trailers())
        return HealthCheckResponse(status=status)

    async def Watch(  # noqa: N802 (the protocol's name)
        self, request: HealthCheckRequest, _context: Context
    ) -> AsyncIterator[HealthCheckResponse]:
        told: _Status | None = None
        while True:
            status = self._status(request.service)
            if status != told:
                told = status
                yield HealthCheckResponse(status=status)
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
