"""The engine's benchmark, on an engine that takes no time and a clock that moves when it is read."""

import pytest

from benchmarks import engine
from benchmarks.engine import BATCHES, EngineBench, measure
from benchmarks.instant_executor import InstantExecutor
from tests.unit.benchmarks.clock import SteppingClock


class Noting(InstantExecutor):
    """Remembers the plans."""

    def __init__(self):
        super().__init__(4096)
        self.plans = []

    def step(self, plan):
        self.plans.append(plan)
        return super().step(plan)


def test_rows_are_rates_and_medians_of_the_clock():
    """At half a second between reads the prefill takes that long, and so does each decode step."""
    rows = {row.metric: row for row in measure(Noting(), SteppingClock(500_000_000), SteppingClock(250_000_000))}
    assert rows["prefill of 1024 tokens in chunks of 256"].value == 2048
    assert rows["decode batch 16 at context 256: step wall, median"].value == 500
    assert rows["decode batch 16 at context 256: step CPU, median"].value == 250
    assert rows["decode batch 16 at context 256: rate"].value == 32
    assert all(row.goal is None for row in rows.values())


@pytest.mark.parametrize(("step_s", "num_steps"), [(0.001, 24), (0.5, 10), (60, 3)])
def test_decoding_is_bounded_in_time(step_s, num_steps):
    """A slow engine makes fewer steps, but never so few that their median says nothing."""
    bench = EngineBench(Noting(), SteppingClock(int(step_s * 1e9)), SteppingClock(1))
    walls, cpus = bench.decode(8)
    assert len(walls) == len(cpus) == num_steps


def test_prompts_are_computed_once():
    """The prompt goes in chunks; a decoding slot begins with its blocks and computes one token of its own."""
    noting = Noting()
    measure(noting, SteppingClock(1), SteppingClock(1))
    chunks = [plan.chunk_counts.tolist() for plan in noting.plans if len(plan.chunk_counts)]
    assert chunks == [[256]] * 4 + [[1] * batch for batch in BATCHES]
    admitted = [slot for plan in noting.plans for slot in plan.admitted]
    assert {slot.computed_length for slot in admitted[1:]} == {256}


def test_no_two_slots_write_the_same_block():
    """Each has room of its own for all that it may decode, inside the pool that the engine is built with."""
    noting = Noting()
    measure(noting, SteppingClock(1), SteppingClock(1))
    most = max(noting.plans, key=lambda plan: len(plan.admitted))
    own = [block for slot in most.admitted for block in slot.blocks[256 // 16 :].tolist()]
    assert len(set(own)) == len(own)
    assert max(own) < engine.PROMPT // 16 + max(BATCHES) * engine.OWN_BLOCKS
    assert min(len(slot.blocks) for slot in most.admitted) * 16 > 257 + engine.MOST_STEPS + 1
