"""The summary of a workload's runs: counts, rates and latencies, as a report shows them and a result file keeps them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from services.cli.bench.cost import Cost
from services.cli.bench.metrics import METRICS, late, of_answered
from services.cli.bench.result import Record, Run
from services.cli.bench.slo import Judgement, Slo
from services.cli.bench.stats import Estimate, estimate, method, over_repeats, percentile

PERCENTS: dict[str, float | None] = {"mean": None, "p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}
STATUSES = ("ok", "refused", "timeout", "failed")
# Beyond these the generator's own delay is part of what it measures.
_MAX_LAG_S = 0.010
_MAX_LATE_S = 0.020
_MAX_CPU_SHARE = 0.9
_MAX_STALE_SHARE = 0.25  # less may be what a chat template puts before every prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of the conversations, all of them together."""

    turn: int
    ttft_p50_s: float | None
    cached_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Numbers of all repeats of one workload."""

    counts: dict[str, int]
    short_answers: int
    """Answers that ended well before the length asked for: the target did not let itself be forced."""
    rates: dict[str, Estimate]
    latencies: dict[str, dict[str, Estimate]]
    """By metric, then by percentile. Over requests that ended well; a metric without a value is left out."""
    cached_share: float | None
    turns: tuple[Turn, ...]
    interval: str
    loop_lag_p99_s: float
    late_p99_s: float
    cpu_share: float
    stale_share: float
    """Of the tokens of prompts that ought to begin like no other: what was found in the prefix cache all the same."""
    judgement: Judgement | None

    @property
    def num_requests(self) -> int:
        return sum(self.counts.values())

    @property
    def failed_share(self) -> float:
        """Share of requests without a good answer, refusals included."""
        return 1 - self.counts["ok"] / self.num_requests

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before believing the numbers."""
        said = []
        if self.loop_lag_p99_s > _MAX_LAG_S or self.late_p99_s > _MAX_LATE_S or self.cpu_share > _MAX_CPU_SHARE:
            said.append(
                f"the load generator itself was a bottleneck: its loop woke {self.loop_lag_p99_s * 1000:.1f} ms late and it "
                f"sent {self.late_p99_s * 1000:.1f} ms late (p99), using {self.cpu_share:.0%} of a core; "
                "the latencies contain its own delays"
            )
        if self.short_answers:
            said.append(f"{self.short_answers} answers are shorter than asked: the target does not force lengths")
        if self.stale_share > _MAX_STALE_SHARE:
            said.append(
                f"{self.stale_share:.0%} of the prompt tokens were in the server's prefix cache: it has been sent these very "
                "prompts before; choose another --seed"
            )
        return said

    def as_dict(self, cost: Cost | None = None) -> dict[str, Any]:
        """For JSON."""
        return {
            "requests": self.num_requests,
            **self.counts,
            "failed_share": self.failed_share,
            "short_answers": self.short_answers,
            "rates": {name: rate.as_dict() for name, rate in self.rates.items()},
            "latencies_s": {
                metric: {name: value.as_dict() for name, value in each.items()}
                for metric, each in self.latencies.items()
            },
            "cached_share": self.cached_share,
            "turns": [
                {"turn": each.turn, "ttft_p50_s": each.ttft_p50_s, "cached_share": each.cached_share}
                for each in self.turns
            ],
            "interval": self.interval,
            "generator": {
                "loop_lag_p99_s": self.loop_lag_p99_s,
                "late_p99_s": self.late_p99_s,
                "cpu_share": self.cpu_share,
            },
            "warnings": self.warnings,
            "slo": None if self.judgement is None else self.judgement.as_dict(),
            "cost": None if cost is None else cost.as_dict(),
        }


def summarize(runs: Sequence[Run], slo: Slo | None, *, shares_prompts: bool = True) -> Summary:
    """Makes the numbers of one workload's repeats, of which there is at least one.

    `shares_prompts`: first turns may begin alike, so that a prefix cache finds them rightly.
    """
    records = [record for run in runs for record in run.records]
    answered = [record for record in records if record.status == "ok"]
    return Summary(
        counts={status: sum(record.status == status for record in records) for status in STATUSES},
        short_answers=sum(record.output_tokens < record.asked_tokens for record in answered),
        rates=_rates(runs, slo),
        latencies={metric: found for metric in METRICS if (found := _percentiles(metric, runs))},
        cached_share=_cached_share(answered),
        turns=_turns(answered),
        interval=method(len(runs)),
        loop_lag_p99_s=max(run.loop_lag_p99_s for run in runs),
        stale_share=0.0 if shares_prompts else _cached_share([each for each in answered if each.turn == 0]) or 0.0,
        late_p99_s=percentile([late(record)[0] for record in records], 99),
        cpu_share=max(run.cpu_share for run in runs),
        judgement=None if slo is None else slo.judge(runs),
    )


def _rates(runs: Sequence[Run], slo: Slo | None) -> dict[str, Estimate]:
    def per_s(amount: Callable[[Record], float]) -> Estimate:
        return over_repeats(
            [sum(amount(each) for each in run.records if each.status == "ok") / run.duration_s for run in runs]
        )

    rates = {
        "requests_per_s": per_s(lambda _: 1),
        "output_tokens_per_s": per_s(lambda record: record.output_tokens),
        "input_tokens_per_s": per_s(lambda record: record.input_tokens),
    }
    if slo is not None:
        rates["goodput_per_s"] = per_s(slo.met_by)
    return rates


def _percentiles(metric: str, runs: Sequence[Run]) -> dict[str, Estimate]:
    values = [of_answered(metric, run.records) for run in runs]
    return dict(zip(PERCENTS, estimate(values, list(PERCENTS.values())), strict=False))  # none at all without a value


def _cached_share(records: Sequence[Record]) -> float | None:
    told = [record for record in records if record.cached_tokens is not None]
    num_tokens = sum(record.input_tokens for record in told)
    return sum(record.cached_tokens or 0 for record in told) / num_tokens if num_tokens else None


def _turns(records: Sequence[Record]) -> tuple[Turn, ...]:
    numbers = sorted({record.turn for record in records if record.conversation is not None})
    turns = []
    for number in numbers:
        of_turn = [record for record in records if record.turn == number]
        firsts = [value for record in of_turn for value in METRICS["ttft"](record)]
        median = percentile(firsts, 50) if firsts else None
        turns.append(Turn(turn=number + 1, ttft_p50_s=median, cached_share=_cached_share(of_turn)))
    return tuple(turns)
