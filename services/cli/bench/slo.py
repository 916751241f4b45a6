"""A service level objective: limits on percentiles, written `ttft_p99=500ms,tbt_p99=50ms`, and whether they hold."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.cli.bench.metrics import METRICS, of_all
from services.cli.bench.result import Record, Run
from services.cli.bench.stats import Estimate, estimate, percentile
from services.runtime.lifecycle import BadSetting

MAX_FAILED_SHARE = 0.01
# MLPerf Inference, loadgen/mlperf.conf: both limits at the 99th percentile, arrivals Poisson.
PRESETS = {
    "llama3.1-8b-server": "ttft_p99=2000ms,tpot_p99=100ms",
    "llama3.1-8b-interactive": "ttft_p99=500ms,tpot_p99=30ms",
}
_OTHER_NAMES = {"tbt": "itl_message", "itl": "itl_message", "tbt_token": "itl_token", "e2el": "e2e"}
_TERM = re.compile(
    r"(?P<metric>[a-z0-9_]+?)_(?:p(?P<percent>\d+(?:\.\d+)?)|(?P<mean>mean))=(?P<limit>\d+(?:\.\d+)?)(?P<unit>ms|s)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One metric's percentile (None: its mean) is to be at most `limit_s`."""

    said: str  # the left side as it was written
    metric: str
    percent: float | None
    limit_s: float

    def met_by(self, record: Record) -> bool:
        """Whether one request alone keeps to it, judged by its own percentile or mean; one without such a time does."""
        if record.status != "ok":
            return False
        values = METRICS[self.metric](record)
        if not values:
            return True
        own = sum(values) / len(values) if self.percent is None else percentile(values, self.percent)
        return own <= self.limit_s


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was measured of one limit. `measured` is None when no request has such a time."""

    limit: Limit
    measured: Estimate | None

    @property
    def holds(self) -> bool:
        return self.measured is not None and self.measured.value <= self.limit.limit_s

    @property
    def is_certain(self) -> bool:
        """Whether the whole interval is on one side of the limit."""
        if self.measured is None or self.measured.low is None or self.measured.high is None:
            return False
        return self.measured.high <= self.limit.limit_s or self.measured.low > self.limit.limit_s


@dataclass(frozen=True, slots=True)
class Judgement:
    """All verdicts, and the share of requests that failed: with more than 1 % nothing holds."""

    slo: "Slo"
    verdicts: tuple[Verdict, ...]
    failed_share: float

    @property
    def too_many_failed(self) -> bool:
        return self.failed_share > MAX_FAILED_SHARE

    @property
    def holds(self) -> bool:
        return not self.too_many_failed and all(verdict.holds for verdict in self.verdicts)

    def lines(self) -> list[str]:
        """HOLDS or FAILS, then each limit."""
        lines = [f"SLO {self.slo.text}: {'HOLDS' if self.holds else 'FAILS'}"]
        lines += [f"  {_in_words(verdict)}" for verdict in self.verdicts]
        if self.too_many_failed:
            lines.append(
                f"  {self.failed_share:.1%} of the requests failed; more than {MAX_FAILED_SHARE:.0%} is no service"
            )
        return lines

    def as_dict(self) -> dict[str, Any]:
        limits = [
            {
                "limit": verdict.limit.said,
                "limit_s": verdict.limit.limit_s,
                "measured": None if verdict.measured is None else verdict.measured.as_dict(),
                "holds": verdict.holds,
                "certain": verdict.is_certain,
            }
            for verdict in self.verdicts
        ]
        return {"slo": self.slo.text, "holds": self.holds, "failed_share": self.failed_share, "limits": limits}


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits that are all to be kept."""

    text: str
    limits: tuple[Limit, ...]

    @classmethod
    def of(cls, text: str) -> "Slo":
        """Reads limits with commas between them, or the name of a preset. Raises `BadSetting`."""
        written = PRESETS.get(text, text)
        return cls(text, tuple(_limit(term) for term in written.split(",")))

    def judge(self, runs: Sequence[Run]) -> Judgement:
        """Whether the runs keep to it. A request that failed counts as one that took for ever."""
        verdicts = tuple(
            Verdict(
                limit, next(iter(estimate([of_all(limit.metric, run.records) for run in runs], [limit.percent])), None)
            )
            for limit in self.limits
        )
        records = [record for run in runs for record in run.records]
        failed = sum(record.status != "ok" for record in records)
        return Judgement(self, verdicts, failed / len(records) if records else 1.0)

    def met_by(self, record: Record) -> bool:
        """Whether one request counts as goodput."""
        return all(limit.met_by(record) for limit in self.limits)


def _limit(term: str) -> Limit:
    match = _TERM.fullmatch(term.strip())
    if match is None:
        raise BadSetting(
            f"{term!r} is no objective: write METRIC_pNN=NUMBERms, such as ttft_p99=500ms,tbt_p99=50ms, "
            f"or one of {', '.join(PRESETS)}"
        )
    metric = _OTHER_NAMES.get(match["metric"], match["metric"])
    if metric not in METRICS:
        raise BadSetting(f"no metric is called {match['metric']!r}; there are {', '.join([*METRICS, *_OTHER_NAMES])}")
    percent = None if match["mean"] else float(match["percent"])
    if percent is not None and not 0 < percent <= 100:
        raise BadSetting(f"{term!r}: a percentile is above 0 and at most 100")
    limit_s = float(match["limit"]) / (1000 if match["unit"] == "ms" else 1)
    return Limit(said=term.strip().partition("=")[0], metric=metric, percent=percent, limit_s=limit_s)


def _in_words(verdict: Verdict) -> str:
    limit = verdict.limit
    head = f"{limit.said} <= {limit.limit_s * 1000:g} ms: {'holds' if verdict.holds else 'fails'}"
    if verdict.measured is None:
        return f"{head}, for no request has such a time"
    words = f"{head}, measured {with_interval(verdict.measured)}"
    if verdict.measured.low is not None and not verdict.is_certain:
        words += "; the interval crosses the limit: more --repeats would tell"
    return words


def with_interval(measured: Estimate) -> str:
    """Milliseconds, with the interval where there is one."""
    if measured.low is None or measured.high is None:
        return _ms(measured.value)
    return f"{_ms(measured.value)} [{_ms(measured.low)}, {_ms(measured.high)}]"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.4g} ms" if math.isfinite(seconds) else "never"
