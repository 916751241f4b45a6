"""One GenerateMany call: many requests read from one stream, their answers interleaved on the other."""

import asyncio
from collections import deque
from dataclasses import dataclass

from headway.v1 import inference_pb2 as api

from services.router.intake import Intake
from services.router.live_request import LiveRequest
from services.router.rpc import Call
from services.router.validation import check_request_id
from services.runtime.errors import Refusal, exhausted, internal, invalid, shortened
from services.runtime.logging import get_logger

_MAX_PENDING_ERROR_BYTES = 64 * 1024  # a client that sends nonsense and reads nothing is not read further
_MAX_QUOTED_ID_BYTES = 128  # of an id that is none, told back to who sent it
_FULL_PAUSE_S = 1.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Member:
    live: LiveRequest
    beginning: "asyncio.Task[None]"


class ManyCall:
    """One writer for all requests of the call: each turn it takes from every request all that is pending."""

    def __init__(self, intake: Intake, call: Call, max_requests: int) -> None:
        self._intake = intake
        self._call = call
        self._max_requests = max_requests
        self._members: dict[str, _Member] = {}
        self._errors: deque[api.GenerateManyResponse] = deque()
        self._error_bytes = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self) -> None:
        """Returns when the client has sent its last request and all have ended. Raises `Refusal`."""
        reader = asyncio.ensure_future(self._read())
        reader.add_done_callback(lambda _: self._changed.set())
        try:
            while not reader.done() or self._members or self._errors:
                await self._wait()
                self._changed.clear()
                await self._write()
                if reader.done():
                    reader.result()
        finally:
            reader.cancel()
            beginnings = [self._leave(request_id) for request_id in list(self._members)]
            await asyncio.gather(reader, *beginnings, return_exceptions=True)

    async def _wait(self) -> None:
        """Returns when something is to be written, or was read. Raises `Refusal` when the client keeps an idle call."""
        if self._members:
            await self._changed.wait()
        else:
            await self._call.within_idle_limit(self._changed.wait())

    # ---- reading

    async def _read(self) -> None:
        while await self._read_one():
            self._changed.set()
            while self._error_bytes >= _MAX_PENDING_ERROR_BYTES:
                self._room.clear()
                await self._room.wait()

    async def _read_one(self) -> bool:
        """Acts on the next message; False when there is none. Nothing of it is kept while the one after is awaited."""
        message = await self._call.read(api.GenerateManyRequest)
        if message is None:
            return False
        match message.WhichOneof("kind"):
            case "generate":
                self._generate(message.generate)
            case "cancel":
                member = self._members.get(message.cancel.request_id)
                if member is not None:  # else it has ended on the way
                    member.live.abort()
            case _:
                raise invalid("a message of GenerateMany holds neither a request nor a cancellation")
        return True

    def _generate(self, request: api.GenerateRequest) -> None:
        try:
            check_request_id(request.request_id, required=True)
            if len(self._members) >= self._max_requests:
                message = f"{self._max_requests} requests of this call are live; send more when some have ended"
                raise exhausted(message, "TOO_MANY_REQUESTS", _FULL_PAUSE_S)
            live = self._intake.open(request, self._call.time_left_s, self._changed.set)
        except Refusal as refusal:
            request_id = shortened(request.request_id, _MAX_QUOTED_ID_BYTES)
            error = api.GenerateManyResponse(request_id=request_id, error=refusal.to_status())
            self._errors.append(error)
            self._error_bytes += error.ByteSize()
            return
        self._members[live.request_id] = _Member(live, asyncio.ensure_future(self._begin(live, request)))

    async def _begin(self, live: LiveRequest, request: api.GenerateRequest) -> None:
        try:
            await self._intake.begin(live, request)
        except Refusal as refusal:
            live.fail(refusal)
        except Exception:
            log.exception("a request failed", request_id=live.request_id)
            live.fail(internal())

    def _leave(self, request_id: str) -> "asyncio.Task[None]":
        member = self._members.pop(request_id)
        member.beginning.cancel()
        self._intake.close(member.live)
        return member.beginning

    # ---- writing

    async def _write(self) -> None:
        while self._errors:
            error = self._errors.popleft()
            await self._call.write(error)
            self._error_bytes -= error.ByteSize()
        self._room.set()
        for request_id, member in list(self._members.items()):
            for response in member.live.take():
                await self._call.write(api.GenerateManyResponse(request_id=request_id, response=response))
            # Asked after the writes: what came meanwhile is taken in the next turn, for which its wake has asked.
            if member.live.ended and not member.live.has_pending:
                refusal = member.live.refusal
                self._leave(request_id)
                if refusal is not None:
                    error = api.GenerateManyResponse(request_id=request_id, error=refusal.to_status())
                    await self._call.write(error)
