"""A distribution: many measurements of one thing, as the few numbers that a report shows."""

from collections.abc import Sequence
from statistics import median

from benchmarks.report import Row


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that `percent` of all values do not exceed."""
    place = -(-len(values) * percent // 100)
    return sorted(values)[max(place, 1) - 1]


def rows_of(what: str, values: Sequence[float], unit: str, median_goal: float | None = None) -> list[Row]:
    """Median, p99 and maximum; the goal is the median's."""
    return [
        Row(f"{what}, median", median(values), unit, median_goal),
        Row(f"{what}, p99", percentile(values, 99), unit),
        Row(f"{what}, max", max(values), unit),
    ]
