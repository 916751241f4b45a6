"""The cost of a kernel: what it reads and computes, and so how long it takes at least on a machine with given roofs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.report import Row
from benchmarks.roofs import Roofs

Unit = Literal["GB/s", "GOP/s"]

_ROUNDS = 5
_ROOF_OF = {"F32": "fp32", "F16": "fp32", "BF16": "bf16"}  # int8 of all others


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one call, or of many."""

    gigabytes: float
    giga_operations: float
    kind: str
    """Of what is read, by GGUF's names: it decides what it is multiplied with."""

    def bound(self, roof: Roofs) -> float:
        """Seconds that it takes at least."""
        compute: float = getattr(roof, _ROOF_OF.get(self.kind, "int8"))
        return max(self.gigabytes / roof.read, self.giga_operations / compute)

    def rows(
        self, what: str, seconds: float, roof: Roofs, unit: Unit, most_times: float | None = None
    ) -> Iterator[Row]:
        """Speed and share of the roof; `most_times` its time is the goal."""
        bound = self.bound(roof)
        amount = self.gigabytes if unit == "GB/s" else self.giga_operations
        yield Row(f"{what}: speed", amount / seconds, unit)
        yield Row(f"{what}: share of the binding roof", 100 * bound / seconds, "%")
        yield Row(f"{what}: time over the roof's", seconds / bound, "times", most_times)


def best_seconds(calls: Sequence[Callable[[], object]], clock_s: Callable[[], float]) -> float:
    """Of all calls, one after the other; the best of a few rounds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = clock_s()
        for call in calls:
            call()
        best = min(best, clock_s() - began)
    return best
