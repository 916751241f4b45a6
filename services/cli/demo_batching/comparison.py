"""The comparison: figures of two ways of batching side by side, for a terminal and for a README."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from services.cli.demo_batching.measured import Measured


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of each way."""

    name: str
    static: float
    continuous: float
    unit: str
    digits: int
    """Behind the point, when it is shown."""
    higher_is_better: bool = False

    @property
    def factor(self) -> float:
        """How many times better continuous batching is; below 1 it is worse."""
        better, worse = self.continuous, self.static
        return better / worse if self.higher_is_better else worse / better

    def cells(self) -> tuple[str, str, str, str]:
        return self.name, self._shown(self.static), self._shown(self.continuous), f"{self.factor:.2f}x"

    def _shown(self, value: float) -> str:
        space = "" if self.unit in {"", "%"} else " "
        return f"{value:.{self.digits}f}{space}{self.unit}"


def figures(static: Measured, continuous: Measured, price_per_hour: float | None) -> list[Figure]:
    """All figures; cost only where there is a price."""
    rows = [
        Figure(
            "slot utilization", 100 * static.timeline.utilization, 100 * continuous.timeline.utilization, "%", 1, True
        ),
        Figure("TTFT p50", static.ttft_s(50), continuous.ttft_s(50), "s", 2),
        Figure("TTFT p99", static.ttft_s(99), continuous.ttft_s(99), "s", 2),
        Figure("output", static.tokens_per_s, continuous.tokens_per_s, "tokens/s", 1, True),
        Figure("wall time", static.wall_s, continuous.wall_s, "s", 1),
    ]
    if price_per_hour is not None:
        costs = static.cost_per_million(price_per_hour), continuous.cost_per_million(price_per_hour)
        rows.append(Figure(f"cost of a million output tokens, at {price_per_hour:g} an hour", *costs, "", 3))
    return rows


_HEADINGS = ("", "static", "continuous", "better by")


def table(rows: Sequence[Figure]) -> Table:
    """For a terminal."""
    made = Table(box=None, pad_edge=False)
    for heading in _HEADINGS:
        made.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for row in rows:
        made.add_row(*row.cells())
    return made


def markdown(rows: Sequence[Figure]) -> str:
    """For a README."""
    lines = [_HEADINGS, ("---", "---:", "---:", "---:"), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def agreement(static: Measured, continuous: Measured) -> str:
    """Whether the answers are the same, token for token."""
    same = sum(static.answers[index] == answer for index, answer in continuous.answers.items())
    return f"{same} of {len(continuous.answers)} answers are the same, token for token"
