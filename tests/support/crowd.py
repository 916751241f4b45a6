"""A crowd: many streams at once through the typed client, each collected whole."""

import asyncio
from dataclasses import dataclass, field

from headway.client import AsyncClient, HeadwayError, RetryPolicy

PATIENT = RetryPolicy(max_attempts=200, first_pause_s=0.05, max_pause_s=0.5)


@dataclass
class Collected:
    """What one stream gave."""

    token_ids: list = field(default_factory=list)
    text: str = ""
    finished: object = None
    error: HeadwayError | None = None


@dataclass
class Ask:
    """One request: a prompt and the client's parameters."""

    prompt: object
    params: dict


class Crowd:
    """Streams in flight; `num_tokens` tells how far they are, all together."""

    def __init__(self, address, asks, timeout_s=90.0):
        self.asks = asks
        self.collected = [Collected() for _ in asks]
        self._address = address
        self._timeout_s = timeout_s

    @property
    def num_tokens(self):
        return sum(len(each.token_ids) for each in self.collected)

    async def run(self, disturb=None):
        """Runs all streams, beside `disturb(self)` where given; both must end."""
        async with AsyncClient(self._address, retry=PATIENT) as client, asyncio.TaskGroup() as group:
            for ask, collected in zip(self.asks, self.collected, strict=True):
                group.create_task(self._collect(client, ask, collected))
            if disturb is not None:
                group.create_task(disturb(self))
        return self.collected

    async def _collect(self, client, ask, collected):
        try:
            async with client.generate(ask.prompt, timeout_s=self._timeout_s, **ask.params) as stream:
                async for delta in stream:
                    collected.token_ids += delta.token_ids
                    collected.text += delta.text
                    collected.finished = delta.finished or collected.finished
        except HeadwayError as error:
            collected.error = error

    async def until(self, num_tokens):
        """Returns when the streams have so many tokens together."""
        while self.num_tokens < num_tokens:
            await asyncio.sleep(0.002)


def twenty(max_tokens, **params):
    """Twenty different requests, every second one greedy, the others at temperature 0.8."""
    return [
        Ask(
            f"Request number {number}: tell me about the number {number * 7}",
            {"max_tokens": max_tokens, "seed": 1000 + number, "temperature": 0.8 * (number % 2), **params},
        )
        for number in range(20)
    ]
