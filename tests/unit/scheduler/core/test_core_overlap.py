"""Two plans in flight: what must not happen because the second leaves before the first is answered."""

from services.wire.message import int32_column
from tests.unit.scheduler.core.helpers import Bench, capacity


def two_that_grow(num_steps):
    """Two sequences after so many steps; with the eighteenth they have filled a pool of four blocks."""
    bench = Bench(up=capacity(num_blocks=4), pipeline_depth=2, prefix_cache=False)
    for handle in (1, 2):
        bench.submit(handle, prompt=15, max_tokens=20)
    for _ in range(num_steps):
        bench.step([0, 1])
    return bench


def test_nobody_gives_way_before_the_result_that_may_free_blocks():
    """The plan in which one gives way waits for the step that runs."""
    bench = two_that_grow(17)
    running = bench.plan()
    assert bench.plan() is None
    bench.at_us += 1000
    bench.answer(running, [0, 1])
    assert bench.core.load(0).waiting == 0
    assert bench.plan() is not None
    assert bench.core.load(0).waiting == 1


def test_a_plan_leaves_behind_a_running_step_while_there_are_blocks():
    """The same two, a step earlier."""
    bench = two_that_grow(16)
    assert bench.plan() is not None
    assert bench.plan() is not None


def test_a_step_that_passes_over_who_has_ended_teaches_nothing():
    """A stream draws a stop token while the next plan has left: the executor computes nothing for it, in no time."""
    bench = Bench(pipeline_depth=2)
    bench.submit(prompt=20, max_tokens=8)
    for _ in range(3):
        bench.step([0], step_us=1900)
    first, second = bench.plan(), bench.plan()
    bench.at_us += 1900
    bench.answer(first, [0], step_us=1900, stopped=int32_column([0]))
    bench.answer(second, [], step_us=30)
    bench.core.check_integrity()
    assert bench.core.overhead_us["ended"] == 30
    bench.submit(2, prompt=20, max_tokens=8)
    bench.step([0], step_us=1900)
    assert bench.plan() is not None
    assert bench.core.load(0).predicted_step_us == 1900


def test_time_is_shared_by_the_tokens_that_were_computed():
    """Beside one that has ended, the other's token is billed the whole step."""
    bench = Bench(pipeline_depth=2)
    for handle in (1, 2):
        bench.submit(handle, prompt=20, max_tokens=8)
    for _ in range(3):
        bench.step([0, 1], step_us=1900)
    first, second = bench.plan(), bench.plan()
    bench.at_us += 1900
    bench.answer(first, [0, 1], step_us=1900, stopped=int32_column([0]))
    bench.answer(second, [1], step_us=1700)
    bench.said()
    bench.step([1], step_us=1700, stopped=int32_column([1]))
    assert bench.last_word().bill.executor_us == 4 * 1900 // 2 + 2 * 1700
    assert bench.core.overhead_us["ended"] == 0
