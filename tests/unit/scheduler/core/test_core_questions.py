"""Questions to the core: its load, what a request waits for, and whom the executor's time is billed to."""

import pytest

from services.wire.event_log import ExecutorDown, RoutedCancel
from services.wire.scheduling import Cancel, ExplainByIdRequest, Finished, SequenceState
from tests.unit.scheduler.core.helpers import Bench


def test_load_tells_progress():
    """Work that does not move for two seconds is no progress; no work is."""
    bench = Bench(max_slots=1)
    assert bench.core.load(10**9).making_progress
    bench.submit(1)
    bench.submit(2)
    bench.plan()
    load = bench.core.load(2_000_000)
    assert (load.running, load.waiting, load.making_progress) == (1, 1, True)
    assert not bench.core.load(2_000_001).making_progress


def test_a_request_after_a_long_idle_time_has_its_two_seconds():
    """Progress is counted from when there was work."""
    bench = Bench()
    bench.at_us = 10**9
    bench.submit(1)
    assert bench.core.load(10**9 + 1_000_000).making_progress


def test_explain_says_what_a_request_waits_for():
    """A slot, the ones before it, the executor; and how far one that runs is."""

    def views(handle: int):
        return bench.core.explain(ExplainByIdRequest(tenant="", request_id=f"r{handle}"), bench.at_us).sequences

    bench = Bench(max_slots=1)
    for handle in (1, 2, 3):
        bench.submit(handle, max_tokens=40)
    bench.step([0])
    ((running,), (second,), (third,)) = views(1), views(2), views(3)
    assert (running.state, running.computed_tokens, running.completion_tokens) == (SequenceState.DECODING, 20, 1)
    assert (running.blocks_held, running.blocks_needed) == (2, 2)
    assert (second.state, second.queue_position, second.waiting_for) == (SequenceState.WAITING, 0, "a_slot")
    assert (third.queue_position, third.waiting_for) == (1, "its_turn")
    assert second.estimated_start_us == 39 * 1000, "the one that runs has 39 tokens to go"
    assert third.estimated_start_us == -1, "when the second ends is not known before it runs"
    bench.core.preempt(1, 1)
    assert views(1)[0].state is SequenceState.PREEMPTED
    bench.tell(ExecutorDown())
    assert views(2)[0].waiting_for == "executor"
    assert views(9) == ()


def test_explain_says_that_a_static_batch_has_to_end_first():
    """Slots of the batch are empty, and whoever is next waits for one until the whole batch has ended."""
    bench = Bench(max_slots=4, batching="static")
    bench.submit(1, max_tokens=40)
    bench.step([0])
    bench.submit(2)
    question = ExplainByIdRequest(tenant="", request_id="r2")
    (view,) = bench.core.explain(question, bench.at_us).sequences
    assert (view.waiting_for, view.estimated_start_us) == ("a_slot", 39 * 1000)
    bench.tell(RoutedCancel(router=1, cancel=Cancel(handle=1)))
    (view,) = bench.core.explain(question, bench.at_us).sequences
    assert (view.waiting_for, view.estimated_start_us) == ("next_step", 0)


def test_explain_says_that_another_request_has_to_run_alone():
    """Whoever waits for a quarantine to end is told so."""
    bench = Bench()
    bench.submit(1, attempt=2)
    bench.submit(2)
    question = ExplainByIdRequest(tenant="", request_id="r2")
    assert bench.core.explain(question, bench.at_us).sequences[0].waiting_for == "quarantine"
    bench.step([0])  # the suspect has grown
    assert bench.core.explain(question, bench.at_us).sequences[0].waiting_for == "next_step"


def test_bills_and_overhead_are_the_executors_time():
    """Every microsecond of every step is on a bill, or has a cause."""
    bench = Bench()
    words = []
    for handle in range(1, 8):
        bench.submit(handle, prompt=10 + handle, max_tokens=3 + handle)
    for step in range(12):
        plan = bench.plan()
        if plan is None:
            break
        if step == 3:
            bench.tell(RoutedCancel(router=1, cancel=Cancel(handle=7)))
        live = [slot for slot in range(7) if step < 4 + slot and not (slot == 6 and step > 3)]
        bench.at_us += 1000
        bench.answer(plan, live, step_us=1003)
        words += [body for body in bench.said() if isinstance(body, Finished)]
    assert len(words) == 7
    billed = sum(word.bill.executor_us for word in words) + sum(bench.core.overhead_us.values())
    assert billed == pytest.approx(1003 * len(bench.plans), abs=10)
