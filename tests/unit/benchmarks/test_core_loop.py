"""The loop that the scheduler's benchmark runs."""

import pytest

from benchmarks.core_loop import CoreLoop
from benchmarks.instant_executor import BLOCK_SIZE
from tests.unit.benchmarks.clock import SteppingClock


@pytest.fixture
def loop():
    return CoreLoop(max_slots=4, num_blocks=64, token_budget=256, clock_ns=SteppingClock(1500))


def test_a_step_costs_its_two_parts(loop):
    """What passes between them, while the executor has the plan, is not counted."""
    assert loop.step([loop.request(10, 3)]).cost_us == 3.0


def test_a_step_says_what_it_planned(loop):
    """Prefill first, then decoding; a boundary that is crossed appends a block, and costs eight bytes."""
    loop.step([loop.request(BLOCK_SIZE - 1, 8)])
    steps = [loop.step() for _ in range(3)]
    assert [step.record.decode_tokens for step in steps] == [1, 1, 1]
    assert [step.num_crossings for step in steps] == [0, 1, 0]
    assert [step.frame_bytes - step.fixed_bytes for step in steps] == [0, 8, 0]
    loop.check()


def test_requests_share_no_prefix(loop):
    """Each is computed whole."""
    step = loop.step([loop.request(40, 2) for _ in range(3)])
    assert step.record.prefill_tokens == 120


def test_an_idle_core_is_no_measurement(loop):
    """A step without work is refused, not counted as a fast one."""
    with pytest.raises(AssertionError, match="nothing to compute"):
        loop.step()
