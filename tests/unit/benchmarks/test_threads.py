"""The benchmark of compute threads, on an engine that takes no time and clocks that say what it would."""

import subprocess

import pytest

from benchmarks.engine import BATCHES, EngineBench
from benchmarks.instant_executor import InstantExecutor
from benchmarks.threads import busy_neighbour, slowdowns, speedups


class Threads:
    """A clock that moves by a step's time, which is shorter the more threads there are."""

    def __init__(self, step_ns_by_threads):
        self._step_ns = step_ns_by_threads
        self._count = 1
        self._now_ns = 0

    def set(self, count):
        self._count = count

    def __call__(self):
        self._now_ns += self._step_ns[self._count]
        return self._now_ns


@pytest.fixture
def measured():
    def make(one_ns, two_ns):
        clock = Threads({1: one_ns, 2: two_ns})
        bench = EngineBench(InstantExecutor(4096), clock, lambda: 0)
        return {1: bench, 2: bench}, clock.set

    return make


def test_a_speedup_is_one_threads_time_over_twos(measured):
    """With a goal where the batch is large enough for both."""
    rows = speedups(*measured(90, 50))
    assert [row.value for row in rows] == [pytest.approx(1.8)] * len(BATCHES)
    assert [row.holds for row in rows] == [None, True, True]
    assert [row.holds for row in speedups(*measured(90, 60))] == [None, False, False]


def test_a_slowdown_is_twos_time_over_ones(measured):
    """Beside a neighbour two threads may be a little slower than one."""
    rows = slowdowns(*measured(100, 110))
    assert [row.value for row in rows] == [pytest.approx(1.1)] * len(BATCHES)
    assert all(row.holds for row in rows)
    assert not any(row.holds for row in slowdowns(*measured(100, 120)))


def test_the_neighbour_ends_with_the_measurement(monkeypatch):
    """It computes until then, and not a moment longer."""
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args: started.append(popen(*args)) or started[-1])
    with busy_neighbour():
        assert started[0].poll() is None
    assert started[0].poll() is not None
