"""Ratios: how many times better Headway is than a peer, each visit to a peer against Headway's visit beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.peers.readings import Reading, more_is_better

OURS = "headway"


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one thing."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def most(self) -> float:
        return max(self.values)


@dataclass(frozen=True, slots=True)
class Cell:
    """One metric of one workload with one peer."""

    workload: str
    metric: str
    peer: str
    value: Spread
    ratio: Spread | None
    """How many times better Headway's is; None for Headway itself, and where there is nothing to compare."""


def cells(readings: Sequence[Reading]) -> list[Cell]:
    """All cells, ordered as they were first measured. Readings with a problem do not count."""
    sound = [reading for reading in readings if not reading.problem]
    ours = [reading for reading in sound if reading.peer == OURS]
    made = []
    for workload, metric, peer in _keys(sound):
        taken = [each for each in sound if (each.workload, each.peer) == (workload, peer) and metric in each.values]
        ratios = () if peer == OURS else tuple(_ratios(taken, ours, metric))
        value = Spread(tuple(each.values[metric] for each in taken))
        made.append(Cell(workload, metric, peer, value, Spread(ratios) if ratios else None))
    return made


def _keys(readings: Iterable[Reading]) -> list[tuple[str, str, str]]:
    keys = {(each.workload, metric, each.peer): None for each in readings for metric in each.values}
    workloads = list({workload: None for workload, _, _ in keys})
    return sorted(keys, key=lambda key: workloads.index(key[0]))


def _ratios(theirs: Sequence[Reading], ours: Sequence[Reading], metric: str) -> Iterable[float]:
    more = more_is_better(metric)
    for reading in theirs:
        beside = neighbour(reading, ours)
        if more is not None and beside is not None and metric in beside.values:
            ratio = times_better(beside.values[metric], reading.values[metric], more=more)
            if ratio is not None:
                yield ratio


def neighbour(reading: Reading, ours: Sequence[Reading]) -> Reading | None:
    """Headway's reading of the same workload in the same round, of the visit nearest to this one."""
    same = [each for each in ours if (each.workload, each.round) == (reading.workload, reading.round)]
    return min(same, key=lambda each: abs(each.place - reading.place), default=None)


def times_better(ours: float, theirs: float, *, more: bool) -> float | None:
    """Above 1: ours is better. None where there is nothing to divide by."""
    above, below = (ours, theirs) if more else (theirs, ours)
    return above / below if below > 0 else None
