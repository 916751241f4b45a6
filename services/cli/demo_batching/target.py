"""The demo's target: our own server, told a name and a seed for each request, so that two runs can be laid side by side."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headway.client import NotFound, Params

from services.cli.bench.grpc_target import GrpcTarget
from services.cli.bench.result import Record
from services.cli.bench.target import Answer, Clock, Exchange
from services.cli.bench.workload import Request

TEMPERATURE = 0.8
GATE_ID = "demo-gate"
_GATE_SEED = 2**32  # no request of the workload has it
_GATE_S = 0.5  # in which all others arrive
_STEP_TOKENS = 512  # the usual budget: nothing else is computed beside whole steps
_POLL_S = 0.005


def request_id(index: int) -> str:
    """The name of a request in the scheduler's event log."""
    return f"demo-{index}"


class DemoTarget(GrpcTarget):
    """The target of the bench, told how to draw each answer; keeps the tokens of all."""

    def __init__(self, address: str) -> None:
        super().__init__(address, model="", prompts="text")
        self._clock: Clock | None = None
        self._gate_steps = 1
        self.answers: dict[int, list[int]] = {}
        self.opened_s = 0.0
        """When the gate opened, on the clock of the run; 0: before it."""

    async def warm_up(self) -> None:
        """The first forward pass of a process takes longer than any other. Also measures how long a gate has to be."""
        most = (await self._client.model()).limits.max_request_tokens // _STEP_TOKENS - 1
        for attempt in range(2):
            began_s = time.perf_counter()
            await self._client.complete(_numbers(_STEP_TOKENS, attempt), max_tokens=1, add_special_tokens=False)
            took_s = time.perf_counter() - began_s
        self._gate_steps = min(most, math.ceil(_GATE_S / took_s))

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        """Keeps the scheduler busy with a long prompt, from before the block on: those that are sent in it wait.

        Without it the one that happens to arrive first would be a static batch of its own.
        """
        closed = asyncio.create_task(self._pass_gate())
        try:
            await self._gate_runs(closed)
            yield
        finally:
            await closed

    async def _pass_gate(self) -> None:
        prompt = _numbers(self._gate_steps * _STEP_TOKENS, 2)
        await self._client.complete(
            prompt, request_id=GATE_ID, seed=_GATE_SEED, max_tokens=1, ignore_eos=True, add_special_tokens=False
        )
        self.opened_s = self._clock.now_s() if self._clock else 0.0

    async def _gate_runs(self, closed: "asyncio.Task[None]") -> None:
        """Returns when it is computed, or over."""
        while not closed.done():
            try:
                (answer,) = (await self._client.explain(GATE_ID)).answers
            except NotFound:  # not yet there, or over
                await asyncio.sleep(_POLL_S)
                continue
            if answer.waiting_for == "nothing":
                return
            await asyncio.sleep(_POLL_S)

    async def send(self, request: Request, before: Sequence[Exchange], record: Record, clock: Clock) -> Answer:
        assert not before, "the demo has no conversations"
        self._clock = clock
        answer = await super().send(request, before, record, clock)
        self.answers[request.index] = answer.token_ids
        return answer

    def _drawn(self, request: Request) -> Params:
        return {"request_id": request_id(request.index), "seed": request.index, "temperature": TEMPERATURE}


def _numbers(count: int, first: int) -> list[int]:
    """Token ids that every model has; no two `first` share a beginning."""
    return [(first + number) % 200 + 1 for number in range(count)]
