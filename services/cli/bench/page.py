"""A result as one HTML page: numbers and plots, nothing from outside, readable in light and in dark."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, TypeVar

from services.cli.bench import svg
from services.cli.bench.metrics import METRICS
from services.cli.bench.result import Record, Run
from services.cli.bench.summary import PERCENTS, Summary
from services.cli.bench.sweep import Sweep
from services.cli.bench.table import LATENCY_NAMES, RATE_NAMES, counts_in_words, errors_in_words, interval, number

_Item = TypeVar("_Item")
_MAX_ROWS = 400  # of a timeline
_MAX_POINTS = 300  # of a line
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fff; --faint: #d8dde6; --bad: #c62828;
  --a: #1565c0; --b: #c05a00; --c: #2e7d32; --d: #8e24aa; }
@media (prefers-color-scheme: dark) { :root { --ink: #dde3ec; --paper: #14181f; --faint: #39414e; --bad: #ff7066;
  --a: #64b5f6; --b: #ffb060; --c: #81c784; --d: #ce93d8; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1340px;
  margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .2rem .8rem; text-align: right; }
th:first-child, td:first-child { text-align: left; } tr { border-bottom: 1px solid var(--faint); }
.scroll { overflow-x: auto; } .bad { color: var(--bad); } .plots { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; flex: 1 1 420px; max-width: 660px; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--ink); }
.grid { stroke: var(--faint); } .line { fill: none; stroke-width: 2; } .mark { stroke: var(--bad); stroke-dasharray: 5 4; }
.c0 { stroke: var(--a); } .c1 { stroke: var(--b); } .c2 { stroke: var(--c); } .c3 { stroke: var(--d); }
.dot { fill: var(--paper); stroke-width: 2; }
svg .f0 { fill: var(--a); } svg .f1 { fill: var(--b); } svg .f2 { fill: var(--c); } svg .f3 { fill: var(--d); }
.wait { fill: var(--faint); } .answer { fill: var(--a); } .failed { fill: var(--bad); }
"""


def page(title: str, facts: Mapping[str, Any], sections: Sequence[str]) -> str:
    """The whole page."""
    rows = "".join(
        f"<tr><td>{escape(str(name))}</td><td>{escape(str(value))}</td></tr>" for name, value in facts.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"{''.join(sections)}<h2>What was measured</h2>{_scroll(rows)}</body></html>\n"
    )


def words_section(lines: Sequence[str]) -> str:
    """Verdicts, costs and warnings, a line each."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def run_section(summary: Summary, runs: Sequence[Run]) -> str:
    """One workload: counts, rates, latencies and four plots."""
    errors = "".join(f'<p class="bad">{escape(words)}</p>' for words in errors_in_words(runs))
    rates = "".join(
        f"<tr><td>{escape(RATE_NAMES[name])}</td><td>{interval(rate)}</td></tr>" for name, rate in summary.rates.items()
    )
    return (
        f"<p>{escape(counts_in_words(summary))}</p>{errors}{_scroll(rates)}<h2>Latency, ms</h2>"
        f"{_latency_table(summary)}<p>Intervals: {escape(summary.interval)}.</p>{_turn_table(summary)}"
        f'<div class="plots">{"".join(_plots(runs))}</div>'
    )


def sweep_section(swept: Sweep) -> str:
    """Latency against load, with the knee marked."""
    knee = swept.knee
    marks = [] if knee is None else [svg.Mark(knee.rate_per_s, "knee")]
    plots = [
        svg.chart(
            f"{name} against load",
            "requests/s",
            "ms",
            [_load_line(swept, metric, each) for each in ("p50", "p99")],
            marks,
        )
        for metric, name in (("ttft", "TTFT"), ("tpot", "TPOT"), ("e2e", "E2E"))
    ]
    failed = [(point.rate_per_s, point.summary.failed_share * 100) for point in swept.points]
    plots.append(
        svg.chart("Failed requests against load", "requests/s", "%", [svg.Line("failed or refused", failed)], marks)
    )
    words = f"capacity {number(swept.capacity_per_s)} requests/s; "
    words += "no knee within these loads" if knee is None else f"knee at {number(knee.rate_per_s)} requests/s"
    return f'<p>{words}</p><div class="plots">{"".join(plots)}</div>'


def _load_line(swept: Sweep, metric: str, percent: str) -> svg.Line:
    points = [
        (point.rate_per_s, found[percent].value * 1000)
        for point in swept.points
        if (found := point.summary.latencies.get(metric))
    ]
    return svg.Line(percent, points)


def _latency_table(summary: Summary) -> str:
    head = "".join(f"<th>{name}</th>" for name in PERCENTS)
    rows = "".join(
        f"<tr><td>{escape(LATENCY_NAMES[metric])}</td>"
        + "".join(f"<td>{interval(found[name], 1000)}</td>" for name in PERCENTS)
        + "</tr>"
        for metric, found in summary.latencies.items()
    )
    return _scroll(f"<tr><th></th>{head}</tr>{rows}")


def _turn_table(summary: Summary) -> str:
    if not summary.turns:
        return ""
    rows = "".join(
        f"<tr><td>{turn.turn}</td><td>{number(turn.ttft_p50_s, 1000)}</td><td>{number(turn.cached_share, 100)}</td></tr>"
        for turn in summary.turns
    )
    return _scroll(f"<tr><th>turn</th><th>TTFT p50, ms</th><th>prompt tokens cached, %</th></tr>{rows}")


def _plots(runs: Sequence[Run]) -> list[str]:
    answered = [record for run in runs for record in run.records if record.status == "ok"]
    first = runs[0]
    return [
        _distribution("TTFT: share of requests", answered, ("ttft", "ttft_sent")),
        _distribution("Time between messages and per token: share of them", answered, ("itl_message", "tpot")),
        svg.chart("Output tokens in each second", "seconds", "tokens", [svg.Line("tokens", tokens_by_second(first))]),
        svg.timeline(_timeline_title(first), _bars(first)),
    ]


def _distribution(title: str, records: Sequence[Record], metrics: Sequence[str]) -> str:
    lines = []
    for metric in metrics:
        values = sorted(value * 1000 for record in records for value in METRICS[metric](record))
        steps = range(1, len(values) + 1)
        points = [(value, 100 * place / len(values)) for value, place in zip(values, steps, strict=True)]
        lines.append(svg.Line(LATENCY_NAMES[metric].split(" (")[0], thinned(points, _MAX_POINTS)))
    return svg.chart(title, "ms", "%", lines)


def tokens_by_second(run: Run) -> list[tuple[float, float]]:
    """Tokens that came within each second of a run, at the second's middle."""
    seconds: dict[int, int] = {}
    for record in run.records:
        for at_s, count in zip(record.message_s, record.message_tokens, strict=True):
            seconds[int(at_s)] = seconds.get(int(at_s), 0) + count
    return [(second + 0.5, seconds.get(second, 0)) for second in range(max(seconds, default=-1) + 1)]


def thinned(items: Sequence[_Item], most: int) -> list[_Item]:
    """At most so many items, evenly chosen, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[place * (len(items) - 1) // (most - 1)] for place in range(most)]


def _timeline_title(run: Run) -> str:
    shown = min(len(run.records), _MAX_ROWS)
    return "Requests: waiting, answering, failed" + (
        f" ({shown} of {len(run.records)})" if shown < len(run.records) else ""
    )


def _bars(run: Run) -> list[svg.Bar]:
    return [
        svg.Bar(record.intended_s, record.first_s, record.end_s, record.status != "ok")
        for record in thinned(run.records, _MAX_ROWS)
    ]


def _scroll(rows: str) -> str:
    return f'<div class="scroll"><table>{rows}</table></div>'
