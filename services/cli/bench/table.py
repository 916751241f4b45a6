"""A summary as a table for a terminal."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from services.cli.bench.result import Run
from services.cli.bench.stats import Estimate
from services.cli.bench.summary import STATUSES, Summary
from services.cli.bench.sweep import Sweep

LATENCY_NAMES = {
    "ttft": "TTFT",
    "ttft_sent": "TTFT, real send",
    "tpot": "TPOT",
    "itl_message": "ITL/message (TBT)",
    "itl_token": "ITL/token",
    "e2e": "E2E",
    "e2e_sent": "E2E, real send",
}
RATE_NAMES = {
    "requests_per_s": "requests/s",
    "output_tokens_per_s": "output tokens/s",
    "input_tokens_per_s": "input tokens/s",
    "goodput_per_s": "goodput, requests/s within the SLO",
}
_SHOWN_ERRORS = 3
_SHOWN = ("mean", "p50", "p90", "p99", "max")  # what 80 columns hold; the page and the file have all of it
_BOUNDED = ("p50", "p99")


def number(value: float | None, scale: float = 1.0) -> str:
    """Three digits are as many as a measurement has."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "never"
    value *= scale
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def interval(found: Estimate, scale: float = 1.0) -> str:
    """The value, and its interval where there is one."""
    words = number(found.value, scale)
    if found.low is None or found.high is None:
        return words
    return f"{words} [{number(found.low, scale)}, {number(found.high, scale)}]"


def counts_in_words(summary: Summary) -> str:
    """How many requests there were, and how each ended."""
    ends = ", ".join(f"{summary.counts[status]} {status}" for status in STATUSES if summary.counts[status])
    return f"{summary.num_requests} requests: {ends}"


def errors_in_words(runs: Sequence[Run]) -> list[str]:
    """The commonest reasons of failures."""
    reasons: dict[str, int] = {}
    for run in runs:
        for record in run.records:
            if record.status != "ok":
                words = f"{record.status}: {record.error}"
                reasons[words] = reasons.get(words, 0) + 1
    commonest = sorted(reasons.items(), key=lambda each: -each[1])[:_SHOWN_ERRORS]
    return [f"{count} x {words}" for words, count in commonest]


def show(summary: Summary, runs: Sequence[Run], console: Console) -> None:
    """Prints one workload's numbers."""
    console.print(counts_in_words(summary))
    for words in errors_in_words(runs):
        console.print(f"  {words}", style="red", markup=False)
    for name, rate in summary.rates.items():
        console.print(f"  {RATE_NAMES[name]}: {interval(rate)}", markup=False)
    if summary.cached_share is not None:
        console.print(f"  prompt tokens found in the prefix cache: {summary.cached_share:.1%}")
    if summary.latencies:
        console.print("", _latencies(summary), f"intervals: {summary.interval}")
    if summary.turns:
        console.print("", _turns(summary))


def _latencies(summary: Summary) -> Table:
    table = Table(title="latency, ms", title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in _SHOWN:
        table.add_column(name, justify="right", no_wrap=name not in _BOUNDED)  # an interval of minutes breaks its line
    for metric, found in summary.latencies.items():
        cells = [_cell(found[name], bounds=name in _BOUNDED) for name in _SHOWN]
        table.add_row(LATENCY_NAMES[metric], *cells)
    return table


def _cell(found: Estimate, *, bounds: bool) -> str:
    return interval(found, 1000) if bounds else number(found.value, 1000)


def _turns(summary: Summary) -> Table:
    table = Table(title="conversations", title_justify="left", box=None, pad_edge=False)
    for name in ("turn", "TTFT p50, ms", "prompt tokens cached"):
        table.add_column(name, justify="right")
    for turn in summary.turns:
        cached = "-" if turn.cached_share is None else f"{turn.cached_share:.1%}"
        table.add_row(str(turn.turn), number(turn.ttft_p50_s, 1000), cached)
    return table


def show_sweep(swept: Sweep, console: Console) -> None:
    """Prints a row for each load."""
    table = Table(title="latency against load", title_justify="left", box=None, pad_edge=False)
    for name in (
        "load",
        "requests/s",
        "TTFT p50, ms",
        "TTFT p99, ms",
        "TPOT p50, ms",
        "TPOT p99, ms",
        "failed",
        "SLO",
        "",
    ):
        table.add_column(name, justify="right")
    knee = swept.knee
    for point in swept.points:
        latencies, judgement = point.summary.latencies, point.summary.judgement
        cells = [
            interval(latencies[metric][percent], 1000) if metric in latencies else "-"
            for metric in ("ttft", "tpot")
            for percent in ("p50", "p99")
        ]
        holds = "" if judgement is None else "holds" if judgement.holds else "fails"
        mark = "<- knee" if point is knee else ""
        share = f"{point.share:.0%}"
        table.add_row(share, number(point.rate_per_s), *cells, f"{point.summary.failed_share:.1%}", holds, mark)
    console.print(table)
    console.print(f"capacity: {number(swept.capacity_per_s)} requests/s")
    if knee is None:
        console.print("knee: none within these loads")
    else:
        console.print(f"knee: {number(knee.rate_per_s)} requests/s, {knee.share:.0%} of capacity")
