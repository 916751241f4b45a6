"""A scheduler link: one address, one Attach stream at a time, and what is being computed behind it."""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import grpc.aio

from services.router.computations import Computations, Computed, tell_lost
from services.router.scheduler_client import SchedulerClient
from services.router.served_model import ModelCache, ServedModel
from services.router.settings import RouterSettings
from services.router.text.errors import UnusableModel
from services.runtime.logging import get_logger
from services.wire.codec import decode, encode
from services.wire.execution import PROTOCOL
from services.wire.message import InvalidMessage, Message
from services.wire.scheduling import (
    Cancel,
    CancelByIdRequest,
    CancelByIdResponse,
    ExplainByIdRequest,
    ExplainByIdResponse,
    Finished,
    Load,
    Rejected,
    RouterHello,
    SchedulerHello,
    StepTokens,
    Stop,
    ToRouter,
    ToScheduler,
)

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_TICK_S = 0.25

log = get_logger(__name__)


class SchedulerLink:
    """Attaches, again and again; `changed` is called when it may have become, or ceased to be, of use."""

    def __init__(
        self, address: str, settings: RouterSettings, models: ModelCache, changed: Callable[["SchedulerLink"], None]
    ) -> None:
        self.address = address
        self.hello: SchedulerHello | None = None  # of the running session
        self.model: ServedModel | None = None  # of the running session, once its card is known
        self.load: Load | None = None
        self._load_at = 0.0
        self._settings = settings
        self._models = models
        self._changed = changed
        self._computations = Computations()
        # At most one Submit and one Stop or Cancel for each live request, which the router's intake bounds.
        self._outbox: deque[bytes] = deque()
        self._outbox_filled = asyncio.Event()
        self._quiet_ticks = 0
        self._client: SchedulerClient | None = None
        self._learning: asyncio.Task[None] | None = None

    # ---- what it is good for

    @property
    def can_compute(self) -> bool:
        """Whether a request may be sent here."""
        return self.model is not None and not (self.load and self.load.draining)

    @property
    def executor_ready(self) -> bool:
        return self.hello is not None and self.hello.executor_ready

    @property
    def num_live(self) -> int:
        return len(self._computations)

    @property
    def busyness(self) -> int:
        """Sequences there: as the scheduler last said, or more if this router alone has more."""
        reported = self.load.running + self.load.waiting if self.load else 0
        return max(reported, len(self._computations))

    def is_ready(self, now: float) -> bool:
        """Whether work sent here would move."""
        load = self.load
        fresh = load is not None and now - self._load_at <= self._settings.load_max_age_s
        return fresh and self.can_compute and self.executor_ready and load is not None and load.making_progress

    # ---- sequences

    def submit(self, computed: Computed) -> int | None:
        """Sends `computed`, and returns the handle by which it is stopped and cancelled. Only while `can_compute`.

        None: what it says of itself cannot be sent; it has been failed.
        """
        return self._computations.begin(computed, self._submit)

    def _submit(self, computed: Computed, handle: int) -> None:
        assert self.hello is not None
        self._send(computed.submission(handle, self.hello))

    def stop(self, handle: int, accepted_count: int) -> None:
        """The sequence is complete at `accepted_count` tokens; nothing more is heard of it."""
        if self._computations.drop(handle):
            self._send(Stop(handle=handle, accepted_count=accepted_count))

    def cancel(self, handle: int) -> None:
        """Nobody wants the sequence any more; nothing more is heard of it."""
        if self._computations.drop(handle):
            self._send(Cancel(handle=handle))

    async def explain(self, tenant: str, request_id: str) -> ExplainByIdResponse:
        return await self._attached().explain(ExplainByIdRequest(tenant=tenant, request_id=request_id))

    async def cancel_by_id(self, tenant: str, request_id: str) -> CancelByIdResponse:
        return await self._attached().cancel_by_id(CancelByIdRequest(tenant=tenant, request_id=request_id))

    def _attached(self) -> SchedulerClient:
        if self._client is None:
            raise InvalidMessage("the scheduler is not attached")
        return self._client

    # ---- sessions

    async def run(self) -> None:
        """Keeps a session until cancelled."""
        pause_s, said = _FIRST_PAUSE_S, ""
        while True:
            try:
                await self._session()
            except grpc.aio.AioRpcError as error:
                code = error.code().name
                if code != said or self.hello is not None:  # a change, not each of many tries
                    log.info("scheduler not attached", address=self.address, code=code, why=error.details())
                said = code
            except InvalidMessage as error:
                log.warning("scheduler breaks the protocol", address=self.address, why=str(error))
            except Exception:
                # What one peer says must not end the process that serves the clients of all of them.
                log.exception("session with a scheduler failed", address=self.address)
            if self.hello is not None:
                pause_s = _FIRST_PAUSE_S
            self._detach()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 (spreads reconnects, keeps no secret)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _session(self) -> None:
        async with SchedulerClient(self.address) as self._client:
            call = self._client.attach()
            self._outbox.clear()
            self._send(RouterHello(router=self._settings.name))
            self._quiet_ticks = 0
            helpers = [asyncio.ensure_future(self._write(call)), asyncio.ensure_future(self._watch())]
            for helper in helpers:
                helper.add_done_callback(lambda _: call.cancel())  # without each of them a session is none
            try:
                async for frame in call:
                    self._quiet_ticks = 0
                    self._hear(decode(ToRouter, frame).body)
            except asyncio.CancelledError:
                # Our own cancel of the stream looks like this too; the task's cancellation must pass.
                if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                    raise
            finally:
                call.cancel()
                await _cancelled(helpers)

    async def _write(self, call: Any) -> None:
        """Sends what is in the outbox, in order; returns when the stream broke, of which the reader hears why."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                while self._outbox:
                    await call.write(self._outbox.popleft())
                await self._outbox_filled.wait()
                self._outbox_filled.clear()

    async def _watch(self) -> None:
        """Returns when the stream says nothing. Counts ticks, so that a pause of this process is not held against the other."""
        while self._quiet_ticks * _TICK_S < self._settings.scheduler_silence_s:
            await asyncio.sleep(_TICK_S)
            self._quiet_ticks += 1
        log.warning("scheduler is silent", address=self.address, silence_s=self._settings.scheduler_silence_s)

    def _send(self, body: Message) -> None:
        # Encoded here, where a message that cannot be is the fault of one request, and not in the writer of all of them.
        self._outbox.append(encode(ToScheduler(body=body)))  # type: ignore[arg-type]
        self._outbox_filled.set()

    def _detach(self) -> None:
        if self.hello is not None:
            log.warning("scheduler lost", address=self.address, live_requests=len(self._computations))
        if self._learning is not None:
            self._learning.cancel()
            self._learning = None
        self.hello = self.model = self.load = self._client = None
        self._outbox.clear()
        orphans = self._computations.take_all()
        self._changed(self)
        tell_lost(orphans)

    # ---- what the scheduler says

    def _hear(self, body: Message) -> None:
        match body:
            case StepTokens():
                self._computations.hear_tokens(body)
            case Finished():
                self._computations.hear_finished(body)
            case Rejected():
                self._computations.hear_rejected(body)
            case Load():
                self.load, self._load_at = body, asyncio.get_running_loop().time()
            case SchedulerHello():
                self._hear_hello(body)

    def _hear_hello(self, hello: SchedulerHello) -> None:
        if hello.protocol != PROTOCOL:
            raise InvalidMessage(f"the scheduler speaks protocol {hello.protocol}, this router {PROTOCOL}")
        if self.hello is None:
            log.info("scheduler attached", address=self.address, executor_ready=hello.executor_ready)
        self.hello = hello
        if not hello.executor_ready:
            return
        if self._learning is not None:
            self._learning.cancel()
        self.model = self._models.find(hello.fingerprint, hello.numerics_digest)
        if self.model is None:
            self._learning = asyncio.ensure_future(self._learn(hello))
        self._changed(self)

    async def _learn(self, hello: SchedulerHello) -> None:
        """Fetches the card that `hello` speaks of and makes the model usable; a newer hello or a lost stream cancels."""
        while True:
            try:
                answer = await self._attached().get_model_card()
                card = answer.card if answer.ready else None
                if card and (card.fingerprint, card.numerics_digest) == (hello.fingerprint, hello.numerics_digest):
                    self.model = await self._models.get(card)
                    self._changed(self)
                    return
            except grpc.aio.AioRpcError as error:
                log.warning("model card not received", address=self.address, code=error.code().name)
            except InvalidMessage as error:
                log.warning("model card is not valid", address=self.address, why=str(error))
            except UnusableModel as error:
                log.warning("model cannot be served", address=self.address, why=str(error))
                return
            except Exception:
                log.exception("model could not be loaded", address=self.address)
                return
            await asyncio.sleep(_TICK_S)


async def _cancelled(tasks: Sequence["asyncio.Future[None]"]) -> None:
    """Raises what a task had ended with before."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
