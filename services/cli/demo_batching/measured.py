"""One way of batching, measured: a server of its own, a workload sent to it, and its event log read afterwards."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headway.client import HeadwayError

from services.cli.bench.load import Load
from services.cli.bench.result import Record, Run
from services.cli.bench.stats import percentile
from services.cli.bench.target import Broken
from services.cli.bench.workload import Workload
from services.cli.console import Failed
from services.cli.demo_batching.target import GATE_ID, DemoTarget, request_id
from services.cli.demo_batching.timeline import Timeline, read_timeline
from services.cli.demo_server import running_server
from services.scheduler.core.settings import BatchingMode

TIMEOUT_S = 1800.0

Tell = Callable[[Record], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """What clients saw, and what was in the scheduler's slots meanwhile."""

    mode: BatchingMode
    model: str
    run: Run
    opened_s: float
    """When the first was computed, on the clock of the run: those that were sent together had all arrived then."""
    timeline: Timeline
    answers: dict[int, list[int]]
    """Token ids by index of the request."""

    @property
    def num_tokens(self) -> int:
        return sum(len(answer) for answer in self.answers.values())

    @property
    def wall_s(self) -> float:
        """From the first arrival, or from when all that were sent together had arrived, to the last token."""
        first_s = min(record.intended_s for record in self.run.records)
        return self.run.duration_s - max(first_s, self.opened_s)

    @property
    def tokens_per_s(self) -> float:
        return self.num_tokens / self.wall_s

    def ttft_s(self, percent: float) -> float:
        """A percentile of the times to the first token, from when a request was to be sent."""
        first_s = [
            record.first_s - max(record.intended_s, self.opened_s)
            for record in self.run.records
            if record.first_s is not None
        ]
        return percentile(first_s, percent)

    def cost_per_million(self, price_per_hour: float) -> float:
        """Of output tokens, when they bear the whole price of the machine's time."""
        return price_per_hour * self.wall_s / 3600 / self.num_tokens * 1e6


def measure(mode: BatchingMode, workload: Workload, *, num_slots: int, fake: bool, tell: Tell) -> Measured:
    """Starts a server, sends the workload, ends the server. Raises `Failed` where a request is not answered."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "events"
        environment = {
            "HEADWAY_SCHEDULER_MAX_SLOTS": str(num_slots),
            "HEADWAY_SCHEDULER_MAX_WAITING_REQUESTS": str(len(workload.requests)),
            "HEADWAY_SCHEDULER_RECORD": str(log),
        }
        flags = ["--batching", mode, *(["--fake"] if fake else [])]
        with running_server(flags, environment) as address:
            model, run, target = asyncio.run(_load(address, workload, tell))
        requests = {request_id(request.index): request.index for request in workload.requests}
        timeline = read_timeline(log, requests, gate_id=GATE_ID)
    return Measured(mode, model, run, target.opened_s, timeline, target.answers)


async def _load(address: str, workload: Workload, tell: Tell) -> tuple[str, Run, DemoTarget]:
    """The model's name, what clients saw, and the target with the answers."""
    async with DemoTarget(address) as target:
        try:
            facts = await target.facts()
            load = Load(workload, target, timeout_s=TIMEOUT_S, tell=tell)
            await target.warm_up()
            if workload.pace.rate_per_s > 0:
                run = await load.run()
            else:
                async with target.gate():
                    run = await load.run()
        except (Broken, HeadwayError) as error:
            raise Failed(f"the server does not answer: {error}") from None
    for record in run.records:
        if record.status != "ok":
            raise Failed(f"request {record.index} was not answered ({record.status}): {record.error}")
    return facts.model, run, target
