"""A live request: the answers to one prompt, from admission until the client has all of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import grpc
from headway.v1 import inference_pb2 as api

from services.router.answer import Answer
from services.runtime.errors import Refusal, deadline_exceeded, error_info


class LiveRequest:
    """Ends with all of its answers finished, or with one refusal. `wake` is called when there is something to take."""

    def __init__(
        self, *, request_id: str, tenant: str, deadline_at: float | None, arrived_at: float, wake: Callable[[], None]
    ) -> None:
        self.request_id = request_id
        self.tenant = tenant
        self.deadline_at = deadline_at
        self.arrived_at = arrived_at
        self.started = api.Started()
        self.answers: Sequence[Answer] = ()
        self.refusal: Refusal | None = None
        self._wake = wake
        self._has_started = False
        self._preparing: asyncio.Timeout | None = None
        self._deadline: asyncio.TimerHandle | None = None
        if deadline_at is not None:
            self._deadline = asyncio.get_running_loop().call_at(deadline_at, self.fail, _too_late())

    @property
    def ended(self) -> bool:
        if self.refusal is not None:
            return True  # an answer that was refused makes its request so
        return bool(self.answers) and all(answer.finished is not None for answer in self.answers)

    @property
    def has_pending(self) -> bool:
        """Whether `take` would give something."""
        return any(answer.pending or (answer.finished and not answer.told) for answer in self.answers)

    @asynccontextmanager
    async def preparing(self) -> AsyncIterator[None]:
        """What is awaited inside is given up at `fail`, and so at the deadline; its refusal is raised then."""
        try:
            async with asyncio.timeout(None) as self._preparing:
                yield
        except TimeoutError:
            if self.refusal is None:
                raise
            raise self.refusal from None
        finally:
            self._preparing = None

    def begin(self, started: api.Started, answers: Sequence[Answer]) -> None:
        """Has the answers computed."""
        self.started = started
        self.answers = answers
        for answer in answers:
            answer.begin()

    def answer_changed(self) -> None:
        """One answer has more to take, or has ended."""
        if self.refusal is None:
            for answer in self.answers:
                if answer.refusal is not None:
                    self.fail(answer.refusal)
                    return
        self._wake()

    def take(self) -> Iterator[api.GenerateResponse]:
        """What the client is to get now, one message for each answer that grew; each is made when it is asked for."""
        for answer in self.answers:
            # Its end is told together with its last delta, or alone where nothing was pending.
            finished = None if answer.told else answer.finished
            has_grown = bool(answer.pending)
            if not has_grown and finished is None:
                continue
            response = api.GenerateResponse()
            if not self._has_started:
                self._has_started = True
                response.started.CopyFrom(self.started)
            if has_grown:
                answer.pending.move_to(response.delta)
            if finished is not None:
                answer.told = True
                response.finished.CopyFrom(finished)
            yield response

    def abort(self) -> None:
        """Ends the request with what its answers have; one that has not begun is refused."""
        if not self.answers:
            message = "the request was aborted before it began"
            self.fail(Refusal(grpc.StatusCode.ABORTED, message, error_info("ABORTED")))
        for answer in self.answers:
            answer.abort()

    def fail(self, refusal: Refusal) -> None:
        """Ends the request, if it has not ended."""
        if self.ended:
            return
        self.refusal = refusal
        for answer in self.answers:
            answer.fail(refusal)
        if self._preparing is not None:
            self._preparing.reschedule(asyncio.get_running_loop().time())
        self._wake()

    def close(self) -> None:
        """The client has everything, or wants nothing more: what is still computed is cancelled."""
        if self._deadline is not None:
            self._deadline.cancel()
        self.fail(Refusal(grpc.StatusCode.CANCELLED, "the client is gone"))


def _too_late() -> Refusal:
    return deadline_exceeded("the deadline passed before the answer was complete")
