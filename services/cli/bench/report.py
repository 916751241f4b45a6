"""The report of a session: table, verdict and cost on standard output, JSON and HTML where asked, and the exit code."""

from dataclasses import dataclass
from typing import Any, Self

from services.cli.bench.cost import Cost, cost, why_no_cost
from services.cli.bench.options import ReportOptions
from services.cli.bench.page import page, run_section, sweep_section, words_section
from services.cli.bench.result import Run, document, write
from services.cli.bench.session import Measured
from services.cli.bench.slo import Judgement
from services.cli.bench.summary import Summary, summarize
from services.cli.bench.sweep import Sweep
from services.cli.bench.table import number, show, show_sweep
from services.cli.console import err, out


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is to be said, all of it made before any of it is shown."""

    measured: Measured
    options: ReportOptions
    summary: Summary | None  # None: a sweep
    runs: list[Run]
    cost: Cost | None
    verdict: list[str]
    warnings: list[str]
    exit_code: int

    @classmethod
    def of(cls, measured: Measured, options: ReportOptions) -> Self:
        """Judges what was measured."""
        if measured.swept is not None:
            return cls._of_sweep(measured, measured.swept, options)
        shares_prompts = measured.workload.get("shared_prefix_tokens") != 0  # a trace does not say
        summary = summarize(measured.runs, measured.slo, shares_prompts=shares_prompts)
        judgement = summary.judgement
        money, words = _cost(options.price_per_hour, measured.runs, judgement)
        nothing_answered = summary.counts["ok"] == 0
        return cls(
            measured=measured,
            options=options,
            summary=summary,
            runs=measured.runs,
            cost=money,
            verdict=[*(judgement.lines() if judgement else ()), *words],
            warnings=summary.warnings,
            exit_code=int(nothing_answered or (judgement is not None and not judgement.holds)),
        )

    @classmethod
    def _of_sweep(cls, measured: Measured, swept: Sweep, options: ReportOptions) -> Self:
        best, verdict = swept.highest_that_holds, []
        if measured.slo is not None and best is None:
            verdict.append(f"SLO {measured.slo.text}: FAILS at {swept.points[0].share:.0%} of capacity already")
        elif measured.slo is not None and best is not None:
            verdict.append(
                f"SLO {measured.slo.text}: HOLDS up to {number(best.rate_per_s)} requests/s, {best.share:.0%} of capacity"
            )
            verdict += best.summary.judgement.lines()[1:] if best.summary.judgement else ()
        shown = best or swept.points[0]
        money, words = _cost(options.price_per_hour, shown.runs, shown.summary.judgement)
        return cls(
            measured=measured,
            options=options,
            summary=None,
            runs=[run for point in swept.points for run in point.runs],
            cost=money,
            verdict=verdict + words,
            warnings=sorted({words for point in swept.points for words in point.summary.warnings}),
            exit_code=int(measured.slo is not None and best is None),
        )

    def publish(self) -> int:
        """Shows and writes it; the exit code."""
        if self.options.json is not None:
            write(self.options.json, self._document())
        if self.options.html is not None:
            self.options.html.write_text(self._page(), encoding="utf-8")
        target, workload = self.measured.target, self.measured.workload
        out.print(f"{workload['name']} against {target['model']} at {target['address']}", style="bold", markup=False)
        if self.measured.swept is not None:
            show_sweep(self.measured.swept, out)
        elif self.summary is not None:
            show(self.summary, self.runs, out)
        for line in self.verdict:
            out.print(line, markup=False, soft_wrap=True)
        for line in self.warnings:
            err.print(f"headway: warning: {line}", style="yellow", markup=False, soft_wrap=True)
        return self.exit_code

    def _document(self) -> dict[str, Any]:
        if self.measured.swept is not None:
            summary = _sweep_as_dict(self.measured.swept) | {"cost": self.cost.as_dict() if self.cost else None}
        else:
            assert self.summary is not None
            summary = self.summary.as_dict(self.cost)
        return document(self.measured.target, self.measured.workload, self.runs, summary)

    def _page(self) -> str:
        sections = [words_section([*self.verdict, *(f"Warning: {words}" for words in self.warnings)])]
        if self.measured.swept is not None:
            sections.append(sweep_section(self.measured.swept))
        elif self.summary is not None:
            sections.append(run_section(self.summary, self.runs))
        facts = {f"target: {name}": value for name, value in self.measured.target.items()}
        facts |= {f"workload: {name}": value for name, value in self.measured.workload.items()}
        return page(f"headway bench: {self.measured.workload['name']}", facts, sections)


def _cost(price: float | None, runs: list[Run], judgement: Judgement | None) -> tuple[Cost | None, list[str]]:
    """The cost and its words, or why there is none; nothing where no price was given."""
    if price is None:
        return None, []
    if (why := why_no_cost(judgement)) is not None:
        return None, [why]
    found = cost(price, runs)
    return found, found.lines()


def _sweep_as_dict(swept: Sweep) -> dict[str, Any]:
    knee, best = swept.knee, swept.highest_that_holds
    return {
        "capacity_per_s": swept.capacity_per_s,
        "knee_per_s": None if knee is None else knee.rate_per_s,
        "slo_holds_up_to_per_s": None if best is None else best.rate_per_s,
        "points": [
            {"share": point.share, "rate_per_s": point.rate_per_s, **point.summary.as_dict()} for point in swept.points
        ],
    }
