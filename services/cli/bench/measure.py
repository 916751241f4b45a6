"""Measuring: a target, warmed up, runs every repeat of a workload."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from services.cli.bench.load import Load, Tell
from services.cli.bench.result import Run
from services.cli.bench.target import Target
from services.cli.bench.workload import Pace, Workload
from services.cli.console import Failed

_WARM_UP = -1  # a repeat whose words no measurement uses

Draw = Callable[[int], Workload]
"""The workload of a repeat."""
Announce = Callable[[Workload, str], Tell]
"""Begins to show a run, with a word on what it is; what it returns is told of every request that ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """How a target is measured."""

    target: Target
    timeout_s: float
    announce: Announce

    async def warm_up(self, draw: Draw, num_requests: int) -> None:
        """Sends a few requests that are not measured, all at once. Raises `Failed` where none is answered."""
        workload = draw(_WARM_UP)
        first = tuple(each for each in workload.requests if each.turn == 0)[:num_requests]
        if not first:
            return
        run = await self.run(replace(workload, requests=first, pace=Pace(concurrency=len(first))), "warm-up")
        if all(record.status != "ok" for record in run.records):
            raise Failed(f"no request of the warm-up was answered: {run.records[0].error}")

    async def run(self, workload: Workload, what: str) -> Run:
        """One run."""
        tell = self.announce(workload, what)
        return await Load(workload, self.target, timeout_s=self.timeout_s, tell=tell).run()

    async def repeats(self, draw: Draw, num_repeats: int, what: str = "") -> list[Run]:
        """One run for each repeat, drawn anew."""
        runs = []
        for repeat in range(num_repeats):
            words = " ".join(filter(None, (what, f"repeat {repeat + 1} of {num_repeats}" if num_repeats > 1 else "")))
            runs.append(await self.run(draw(repeat), words))
        return runs
