"""Two compute threads against one: on cores that are free, and beside a neighbour that keeps one of them busy."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from benchmarks.engine import BATCHES, EngineBench, build
from benchmarks.report import Row

ROUNDS = 5
LEAST_SPEEDUP = 1.7
"""Of two threads at batches that keep both busy."""
MOST_SLOWDOWN = 1.15
"""Of two threads against one, where a neighbour has one of two cores."""

SetThreads = Callable[[int], None]


def run() -> list[Row]:
    """Loads the default model on the compiled kernels and measures it."""
    from kernels.cpu.library import load

    bench = EngineBench(build(backend="cpu"), time.perf_counter_ns, time.process_time_ns)
    rows = speedups(bench, load().set_threads)
    with busy_neighbour():
        return rows + slowdowns(bench, load().set_threads)


def speedups(bench: EngineBench, set_threads: SetThreads) -> list[Row]:
    """How many times faster two threads are."""
    return [
        Row(f"batch {batch}: two threads, times as fast as one", 1 / ratio, "x", goal, at_least=True)
        for batch, ratio in ratios(bench, set_threads)
        for goal in [LEAST_SPEEDUP if batch > 1 else None]
    ]


def slowdowns(bench: EngineBench, set_threads: SetThreads) -> list[Row]:
    """The time of two threads, relative to one, beside a busy neighbour."""
    return [
        Row(f"batch {batch}, a busy neighbour: time of two threads over one's", ratio, "x", MOST_SLOWDOWN)
        for batch, ratio in ratios(bench, set_threads)
    ]


def ratios(bench: EngineBench, set_threads: SetThreads) -> Iterator[tuple[int, float]]:
    """(batch, median over rounds of a step's time with two threads over its time with one), in alternation."""
    for batch in BATCHES:
        found = []
        for _ in range(ROUNDS):
            medians_ns = []
            for threads in (1, 2):
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
