"""The machine that a benchmark ran on, and how fast it was at that moment."""

import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self

from services.executor.threads import usable_cpus

_LOOPS = 15
_ITERATIONS = 20_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast and how busy the machine is now."""

    calibration_us: float
    load_average: float

    @classmethod
    def now(cls) -> Self:
        return cls(calibration_us(), os.getloadavg()[0])


def calibration_us(clock_ns: Callable[[], int] = time.process_time_ns) -> float:
    """CPU time of a fixed loop: figures of two runs compare only where this one agrees."""
    took_ns = []
    for _ in range(_LOOPS):
        began_ns = clock_ns()
        total = 0
        for number in range(_ITERATIONS):
            total += number & 15
        took_ns.append(clock_ns() - began_ns)
    return median(took_ns) / 1000


def describe(before: Pace, after: Pace) -> dict[str, Any]:
    """The machine in plain values; torch only where this process has used it."""
    facts = {
        "cpu": cpu_model(Path("/proc/cpuinfo").read_text()),
        "cores": usable_cpus(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "calibration_us": {"before": round(before.calibration_us, 1), "after": round(after.calibration_us, 1)},
        "load_average": {"before": round(before.load_average, 2), "after": round(after.load_average, 2)},
    }
    if torch := sys.modules.get("torch"):
        facts |= {"torch": torch.__version__, "torch_threads": torch.get_num_threads()}
    return facts


def cpu_model(cpuinfo: str) -> str:
    """The model's name in the text of /proc/cpuinfo; the architecture where it names none."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
