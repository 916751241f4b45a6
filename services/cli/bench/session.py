"""A session: one target, one workload, everything that is to be measured of them."""

import os
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Self

from services.cli.bench.measure import Bench, Draw
from services.cli.bench.options import ReportOptions, TargetOptions, WorkloadOptions
from services.cli.bench.progress import ProgressBar
from services.cli.bench.result import Run
from services.cli.bench.slo import Slo
from services.cli.bench.sweep import Sweep, sweep
from services.cli.bench.target import Broken, Facts, Target
from services.cli.bench.traces import read, replay
from services.cli.bench.workload import Shape, generate
from services.cli.console import Failed, err
from services.cli.preflight import check_written
from services.runtime.lifecycle import BadSetting

_USUAL_CONCURRENCY = 64  # of the closed loop that finds a capacity
_SWEEP_DURATION_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a session found: runs of the workload, or a sweep."""

    target: dict[str, Any]
    workload: dict[str, Any]
    slo: Slo | None
    runs: list[Run]
    swept: Sweep | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Everything is checked before the first request is sent."""

    target: Target
    timeout_s: float
    draw: Draw
    shape: Shape | None  # None: a trace
    facts: dict[str, Any]  # of the workload
    slo: Slo | None
    options: ReportOptions
    sweep_duration_s: float
    seed: int

    @classmethod
    def of(cls, target: TargetOptions, workload: WorkloadOptions, report: ReportOptions) -> Self:
        """Reads all options. Raises `BadSetting`."""
        slo = Slo.of(report.slo) if report.slo else None
        for name in ("json", "html"):
            if (path := getattr(report, name)) is not None:
                check_written(name, str(path))
        shape = None if workload.trace is not None else workload.shape(swept=report.sweep)
        if report.sweep and shape is None:
            raise BadSetting("a trace cannot be swept: it has a load of its own")
        if target.http and target.prompts == "ids" and shape is not None and shape.turns > 1:
            raise BadSetting("an HTTP answer has no token ids to go on with: conversations need --prompts text or chat")
        draw = _trace(workload) if shape is None else _generated(shape, workload.seed)
        facts = _facts_of(shape, workload) | {"prompts": target.prompts, "repeats": report.repeats}
        return cls(
            target=_target(target),
            timeout_s=target.timeout_s,
            draw=draw,
            shape=shape,
            facts=facts,
            slo=slo,
            options=report,
            sweep_duration_s=workload.duration or _SWEEP_DURATION_S,
            seed=workload.seed,
        )

    async def measure(self) -> Measured:
        """Runs it all. Raises `Failed` where nobody answers."""
        with ProgressBar(err) as bar:
            async with self.target as target:
                bench = Bench(target=target, timeout_s=self.timeout_s, announce=bar.announce)
                facts = await _ask(target)
                await bench.warm_up(self.draw, self.options.warmup)
                runs: list[Run] = []
                swept = None
                if self.options.sweep and self.shape is not None:
                    swept = await sweep(
                        bench,
                        self.shape,
                        seed=self.seed,
                        repeats=self.options.repeats,
                        duration_s=self.sweep_duration_s,
                        concurrency=self.shape.pace.concurrency or _USUAL_CONCURRENCY,
                        slo=self.slo,
                    )
                else:
                    runs = await bench.repeats(self.draw, self.options.repeats)
        return Measured(target=_told(facts), workload=self.facts, slo=self.slo, runs=runs, swept=swept)


async def _ask(target: Target) -> Facts:
    try:
        return await target.facts()
    except Broken as error:
        raise Failed(f"{error}; headway serve starts a server, --http measures another") from None


def _told(facts: Facts) -> dict[str, Any]:
    return {
        "kind": facts.kind,
        "address": facts.address,
        "model": facts.model,
        **facts.details,
        "client": f"headway {version('headway-llm')}, {os.cpu_count()} CPUs",
    }


def _target(options: TargetOptions) -> Target:
    if options.http:
        from services.cli.bench.http_target import HttpTarget  # aiohttp is needed by nobody else

        key = os.environ.get("OPENAI_API_KEY", "")
        return HttpTarget(options.http, model=options.model, prompts=options.prompts, api_key=key)
    from services.cli.bench.grpc_target import GrpcTarget

    return GrpcTarget(options.address, model=options.model, prompts=options.prompts)


def _generated(shape: Shape, seed: int) -> Draw:
    return lambda repeat: generate(shape, seed, repeat)


def _trace(options: WorkloadOptions) -> Draw:
    path = options.trace
    assert path is not None
    rows = read(path, options.requests)
    return lambda repeat: replay(path.name, rows, options.rate, options.seed, repeat)


def _facts_of(shape: Shape | None, options: WorkloadOptions) -> dict[str, Any]:
    if shape is None:
        return {"name": str(options.trace), "rate_per_s": options.rate, "seed": options.seed}
    return {
        "name": shape.name,
        "pace": str(shape.pace),
        "requests": shape.num_requests,
        "input_tokens": str(shape.input_lengths),
        "output_tokens": str(shape.output_lengths),
        "shared_prefix_tokens": shape.shared_prefix_tokens,
        "turns": shape.turns,
        "seed": options.seed,
    }
