"""Percentiles and means with 95 % confidence intervals: over repeats by Student's t, within one run by the bootstrap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import numpy.typing as npt

_SEED = 20_260_101
_MAX_RESAMPLES = 1000
_MIN_RESAMPLES = 100
_MAX_CELLS = 30_000_000  # values times resamples: about a second
_CELLS_AT_ONCE = 1_000_000
# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom; beyond the table the normal law's.
_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_T_95_BEYOND = 2.12

Column = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value and its 95 % interval; `low` and `high` are None where one run gives no interval."""

    value: float
    low: float | None = None
    high: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        """For JSON, which knows no infinity: what failures made endless is null."""
        return {name: finite(getattr(self, name)) for name in ("value", "low", "high")}


def finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def percentile(values: Sequence[float] | Column, percent: float) -> float:
    """The smallest value that `percent` of all values do not exceed (nearest rank; nothing is interpolated)."""
    ordered = np.sort(np.asarray(values, np.float64))
    return float(ordered[int(ranks(np.int64(len(ordered)), percent)) - 1])


def ranks(counts: npt.NDArray[np.int64] | np.int64, percent: float) -> npt.NDArray[np.float64] | np.float64:
    """Places of the percentile, from 1 on, among so many ordered values.

    Rounding keeps a product that floats make a hair too large, such as 29 % of 100, from costing a place.
    """
    return np.maximum(np.ceil(np.round(counts * percent / 100, 9)), 1)


def over_repeats(values: Sequence[float]) -> Estimate:
    """The mean of one value for each repeat, and the interval of that mean; without interval for a single one."""
    value = fmean(values)
    if len(values) < 2:
        return Estimate(value)
    if not math.isfinite(value):
        return Estimate(value, min(values), math.inf)
    freedom = len(values) - 1
    quantile = _T_95[freedom - 1] if freedom <= len(_T_95) else _T_95_BEYOND
    half = quantile * stdev(values) / math.sqrt(len(values))
    return Estimate(value, max(value - half, 0.0), value + half)


def bootstrap(groups: Sequence[Sequence[float]], percents: Sequence[float | None]) -> list[Estimate]:
    """Percentiles (None: the mean) of all values, each with its interval by resampling whole groups.

    A group is one request: its gaps belong together, so it is drawn with all of them or not at all. Empty without values.
    """
    values, owners = _flat(groups)
    if not len(values):
        return []
    order = np.argsort(values, kind="stable")
    values, owners = values[order], owners[order]
    resamples = min(_MAX_RESAMPLES, max(_MIN_RESAMPLES, _MAX_CELLS // len(values)))
    rng = np.random.default_rng(_SEED)
    drawn: list[Column] = []
    rows_at_once = max(_CELLS_AT_ONCE // len(values), 1)
    for begin in range(0, resamples, rows_at_once):
        rows = min(rows_at_once, resamples - begin)
        times = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), size=rows)[:, owners]
        drawn.append(_weighted(values, times, percents))
    whole = _weighted(values, np.ones((1, len(values)), np.int64), percents)[0]
    return [
        Estimate(float(value), percentile(each, 2.5), percentile(each, 97.5))
        for value, each in zip(whole, np.concatenate(drawn).T, strict=True)
    ]


def _flat(groups: Sequence[Sequence[float]]) -> tuple[Column, npt.NDArray[np.int64]]:
    sizes = [len(group) for group in groups]
    values = np.fromiter((value for group in groups for value in group), np.float64, count=sum(sizes))
    return values, np.repeat(np.arange(len(groups)), sizes)


def _weighted(values: Column, times: npt.NDArray[np.int64], percents: Sequence[float | None]) -> Column:
    """Percentiles, or the mean, of the ordered `values` [n], each counted `times` [rows, n]; [rows, percents].

    A row that counts nothing has neither and is left out.
    """
    running = np.cumsum(times, axis=1)
    some = running[:, -1] > 0
    running, times = running[some], times[some]
    total = running[:, -1]
    columns = []
    for percent in percents:
        if percent is None:
            columns.append(_sums(values, times) / total)
        else:
            places = np.asarray(ranks(total, percent)).astype(np.int64)  # of the rows' own type: no row is converted
            columns.append(values[[np.searchsorted(row, place) for row, place in zip(running, places, strict=True)]])
    return np.stack(columns, axis=1)


def _sums(values: Column, times: npt.NDArray[np.int64]) -> Column:
    """Of the ordered `values` [n], each counted `times` [rows, n]; nothing times infinity is nothing."""
    counted = values if np.isfinite(values[-1]) else np.where(times > 0, values, 0.0)
    sums: Column = (counted * times).sum(axis=1) if counted.ndim == 2 else times @ values
    return sums


def estimate(runs: Sequence[Sequence[Sequence[float]]], percents: Sequence[float | None]) -> list[Estimate]:
    """Percentiles (None: the mean) of a metric: `runs` holds, for each repeat, the values of each request.

    With two repeats or more each is the mean of their percentiles; a repeat without a value does not count. Empty where
    there is no value at all.
    """
    if len(runs) == 1:
        return bootstrap(runs[0], percents)
    columns = [values for values in (_flat(groups)[0] for groups in runs) if len(values)]
    if not columns:
        return []
    return [
        over_repeats([float(np.mean(each)) if percent is None else percentile(each, percent) for each in columns])
        for percent in percents
    ]


def method(num_repeats: int) -> str:
    """How the intervals were made, in words."""
    if num_repeats == 1:
        return "95 %, bootstrap over the requests of one run: says nothing of how runs differ"
    return f"95 %, Student's t over {num_repeats} repeats"
