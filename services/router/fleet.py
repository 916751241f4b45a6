"""The fleet: all schedulers of this router, and the sequences that wait until one of them can be used."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import grpc.aio

from services.router.computations import Computed
from services.router.limits import Limits
from services.router.scheduler_link import SchedulerLink
from services.router.served_model import ModelCache, ServedModel
from services.router.settings import RouterSettings
from services.runtime.errors import Refusal, unavailable
from services.runtime.logging import get_logger
from services.wire.message import InvalidMessage
from services.wire.scheduling import SequenceView

log = get_logger(__name__)
T = TypeVar("T")

Chooser = Callable[[list[SchedulerLink]], SchedulerLink]
"""Which of some usable schedulers computes the next sequence."""


class Placed(Computed, Protocol):
    """A sequence that can be placed, and placed again."""

    @property
    def fingerprint(self) -> str:
        """Of the model that its prompt was tokenized for."""
        ...

    def seated(self, link: SchedulerLink, handle: int) -> None: ...


def least_loaded(links: list[SchedulerLink]) -> SchedulerLink:
    """One that has its executor, and of those the one with the fewest sequences."""
    return min(links, key=lambda link: (not link.executor_ready, link.busyness))


class Fleet:
    """Places each sequence at a scheduler, now or when one attaches."""

    def __init__(self, settings: RouterSettings, choose: Chooser = least_loaded) -> None:
        self._settings = settings
        self._choose = choose
        models = ModelCache(settings.max_prompt_bytes)
        self.links = [SchedulerLink(address, settings, models, self._link_changed) for address in settings.schedulers]
        self._waiting: dict[Placed, asyncio.TimerHandle] = {}
        self._current: tuple[ServedModel, Limits] | None = None
        self._model_known = asyncio.Event()

    async def run(self) -> None:
        """Keeps all links until cancelled."""
        async with asyncio.TaskGroup() as group:
            for link in self.links:
                group.create_task(link.run())

    def is_ready(self) -> bool:
        """Whether a request that arrives now would be computed without delay."""
        now = asyncio.get_running_loop().time()
        return any(link.is_ready(now) for link in self.links)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    async def model(self) -> tuple[ServedModel, Limits]:
        """What is served, as last heard; waits for the first scheduler. Raises `Refusal` after the grace."""
        if self._current is None:
            try:
                async with asyncio.timeout(self._settings.scheduler_grace_s):
                    await self._model_known.wait()
            except TimeoutError:
                raise _no_scheduler() from None
        assert self._current is not None
        return self._current

    # ---- placement

    def place(self, sequence: Placed) -> None:
        """Has `sequence` computed by a scheduler that serves its model, as soon as there is one."""
        if not self._seat(sequence, self.links):
            self._wait(sequence)

    def place_elsewhere(self, sequence: Placed, avoided: SchedulerLink) -> bool:
        """Has `sequence` computed by another scheduler than `avoided`, if there is one now."""
        return self._seat(sequence, [link for link in self.links if link is not avoided])

    def forget(self, sequence: Placed) -> None:
        """The sequence no longer waits to be placed."""
        timer = self._waiting.pop(sequence, None)
        if timer is not None:
            timer.cancel()

    def _seat(self, sequence: Placed, links: list[SchedulerLink]) -> bool:
        """Whether one of `links` was to be had; a sequence that cannot be sent has then been failed."""
        usable = [link for link in links if link.can_compute and _serves(link, sequence.fingerprint)]
        if not usable:
            return False
        link = self._choose(usable)
        handle = link.submit(sequence)
        if handle is not None:
            sequence.seated(link, handle)
        return True

    def _wait(self, sequence: Placed) -> None:
        if self._model_gone(sequence):
            sequence.fail(_model_changed())
            return
        loop = asyncio.get_running_loop()
        self._waiting[sequence] = loop.call_later(self._settings.scheduler_grace_s, self._give_up, sequence)

    def _give_up(self, sequence: Placed) -> None:
        self._waiting.pop(sequence, None)
        sequence.fail(_no_scheduler())

    def _model_gone(self, sequence: Placed) -> bool:
        """Whether every scheduler serves something else: none is away that could come back with the model."""
        return all(link.model is not None and not _serves(link, sequence.fingerprint) for link in self.links)

    def _link_changed(self, link: SchedulerLink) -> None:
        if link.model is not None and link.hello is not None:
            self._current = link.model, Limits.of(link.model.card, link.hello, self._settings)
            self._model_known.set()
        for sequence in list(self._waiting):
            if self._seat(sequence, self.links):
                self.forget(sequence)
            elif self._model_gone(sequence):
                self.forget(sequence)
                sequence.fail(_model_changed())

    # ---- questions about a request that may have come through another router

    async def explain(self, tenant: str, request_id: str) -> list[SequenceView]:
        answers = await self._ask_all(lambda link: link.explain(tenant, request_id))
        return [view for answer in answers for view in answer.sequences]

    async def cancel_by_id(self, tenant: str, request_id: str) -> int:
        """How many sequences that cancelled."""
        return sum(
            answer.cancelled for answer in await self._ask_all(lambda link: link.cancel_by_id(tenant, request_id))
        )

    async def _ask_all(self, ask: Callable[[SchedulerLink], Coroutine[Any, Any, T]]) -> list[T]:
        """The answers of all attached schedulers. Raises `Refusal` when none could answer."""
        attached = [link for link in self.links if link.hello is not None]
        results = await asyncio.gather(*map(ask, attached), return_exceptions=True)
        answers: list[T] = []
        for result in results:
            if isinstance(result, (grpc.aio.AioRpcError, InvalidMessage)):
                log.warning("scheduler did not answer", why=str(result))
            elif isinstance(result, BaseException):
                raise result
            else:
                answers.append(result)
        if not answers:
            raise unavailable("no scheduler could be asked; try again", "NO_SCHEDULER", 1.0)
        return answers


def _serves(link: SchedulerLink, fingerprint: str) -> bool:
    return link.model is not None and link.model.card.fingerprint == fingerprint


def _no_scheduler() -> Refusal:
    return unavailable("no scheduler became available in time; send the request again", "NO_SCHEDULER", 1.0)


def _model_changed() -> Refusal:
    message = (
        "the server now serves other weights, or another tokenizer or chat template, than this request began with; "
        "start the request anew"
    )
    return unavailable(message, "MODEL_CHANGED")
