"""Two compute threads against one: on cores that are free, and beside a neighbour that keeps one of them busy."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median

from benchmarks.engine import BATCHES, EngineBench, build
from benchmarks.report import Row

ROUNDS = 5
LEAST_SPEEDUP = 1.7
"""Of two threads at batches that keep both busy."""
MOST_SLOWDOWN = 1.15
"""Of two threads against one, where a neighbour has one of two cores."""

Benches = Mapping[int, EngineBench]
"""By the number of threads, one and two."""
SetThreads = Callable[[int], None]


def run() -> list[Row]:
    """Loads the default model on the compiled kernels and measures it."""
    from kernels.cpu.library import load

    benches = {count: _bench(count) for count in (1, 2)}
    rows = speedups(benches, load().set_threads)
    with busy_neighbour():
        return rows + slowdowns(benches, load().set_threads)


def _bench(threads: int) -> EngineBench:
    """Of an engine of its own: it learns where helpers pay."""
    return EngineBench(build(backend="cpu", threads=threads), time.perf_counter_ns, time.process_time_ns)


def speedups(benches: Benches, set_threads: SetThreads) -> list[Row]:
    """How many times faster two threads are."""
    return [
        Row(f"batch {batch}: two threads, times as fast as one", 1 / ratio, "x", goal, at_least=True)
        for batch, ratio in ratios(benches, set_threads)
        for goal in [LEAST_SPEEDUP if batch > 1 else None]
    ]


def slowdowns(benches: Benches, set_threads: SetThreads) -> list[Row]:
    """The time of two threads, relative to one, beside a busy neighbour."""
    return [
        Row(f"batch {batch}, a busy neighbour: time of two threads over one's", ratio, "x", MOST_SLOWDOWN)
        for batch, ratio in ratios(benches, set_threads)
    ]


def ratios(benches: Benches, set_threads: SetThreads) -> Iterator[tuple[int, float]]:
    """(batch, median over rounds of a step's time with two threads over its time with one), in alternation."""
    for batch in BATCHES:
        found = []
        for _ in range(ROUNDS):
            medians_ns = []
            for threads, bench in sorted(benches.items()):
                set_threads(threads)
                medians_ns.append(median(bench.decode(batch)[0]))
            found.append(medians_ns[1] / medians_ns[0])
        yield batch, median(found)


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """A process that computes all the time."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
