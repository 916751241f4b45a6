"""A sweep: the capacity of a target, then its latency at shares of it."""

from dataclasses import dataclass, replace

from services.cli.bench.knee import knee
from services.cli.bench.measure import Bench
from services.cli.bench.result import Record, Run
from services.cli.bench.slo import MAX_FAILED_SHARE, Slo
from services.cli.bench.summary import Summary, summarize
from services.cli.bench.workload import Pace, Shape, Workload, generate
from services.cli.console import Failed

SHARES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
_CAPACITY_ROUNDS = 4
_CAPACITY = -2  # a repeat whose words no load uses


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One load of a sweep, and what was measured at it."""

    share: float
    rate_per_s: float
    runs: list[Run]
    summary: Summary

    @property
    def ttft_p99_s(self) -> float | None:
        found = self.summary.latencies.get("ttft")
        return found["p99"].value if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The capacity of a target, and its latency at shares of it."""

    capacity_per_s: float
    points: list[Point]

    @property
    def knee(self) -> Point | None:
        """By the p99 of TTFT, over the loads that did not fail more than 1 % of their requests."""
        sound = [
            (point, point.ttft_p99_s)
            for point in self.points
            if point.ttft_p99_s is not None and point.summary.failed_share <= MAX_FAILED_SHARE
        ]
        place = knee([point.rate_per_s for point, _ in sound], [latency_s for _, latency_s in sound])
        return None if place is None else sound[place][0]

    @property
    def highest_that_holds(self) -> Point | None:
        """The highest load that holds the SLO with all loads below it."""
        best = None
        for point in self.points:
            if point.summary.judgement is None or not point.summary.judgement.holds:
                break
            best = point
        return best


async def sweep(
    bench: Bench, shape: Shape, *, seed: int, repeats: int, duration_s: float, concurrency: int, slo: Slo | None
) -> Sweep:
    """Measures capacity in a closed loop, then open arrivals at 10 to 120 % of it. Raises `Failed` without a capacity."""
    full = replace(shape, pace=Pace(concurrency=concurrency), num_requests=_CAPACITY_ROUNDS * concurrency, turns=1)
    run = await bench.run(generate(full, seed, _CAPACITY), "capacity")
    capacity_per_s = capacity(run, concurrency)
    if capacity_per_s <= 0:
        raise Failed(f"no capacity could be measured: {run.records[0].error or 'no request was answered'}")
    points = []
    for place, share in enumerate(SHARES):
        rate_per_s = share * capacity_per_s
        at_rate = replace(shape, turns=1, num_requests=1).at_rate(rate_per_s, duration_s)

        def draw(repeat: int, place: int = place, at_rate: Shape = at_rate) -> Workload:
            return generate(at_rate, seed, place * repeats + repeat)  # no load finds the prefix cache of another

        runs = await bench.repeats(draw, repeats, f"{share:.0%} of capacity")
        points.append(
            Point(
                share=share,
                rate_per_s=rate_per_s,
                runs=runs,
                summary=summarize(runs, slo, shares_prompts=shape.shared_prefix_tokens > 0),
            )
        )
    return Sweep(capacity_per_s=capacity_per_s, points=points)


def capacity(run: Run, concurrency: int) -> float:
    """Requests per second that a full closed loop gets through: its tokens per second over the tokens of a request.

    Counted from the first request that took another's place to the last that was sent, so that neither the crowd at the
    start nor the draining at the end counts. 0 where nothing was answered.
    """
    answered = [record for record in run.records if record.status == "ok"]
    if not answered:
        return 0.0
    sent_s = sorted(record.sent_s for record in run.records)
    begin_s, end_s = (sent_s[concurrency], sent_s[-1]) if len(sent_s) > concurrency else (0.0, run.duration_s)
    if end_s <= begin_s:
        begin_s, end_s = 0.0, run.duration_s
    num_tokens = sum(_tokens_within(record, begin_s, end_s) for record in answered)
    per_request = sum(sum(record.message_tokens) for record in answered) / len(answered)
    return num_tokens / (end_s - begin_s) / per_request


def _tokens_within(record: Record, begin_s: float, end_s: float) -> int:
    return sum(
        count for at_s, count in zip(record.message_s, record.message_tokens, strict=True) if begin_s < at_s <= end_s
    )
