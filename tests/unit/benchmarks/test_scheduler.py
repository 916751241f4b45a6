"""The scheduler's benchmark: that each case measures what its name says."""

import dataclasses

import pytest

from benchmarks import scheduler
from benchmarks.report import Row
from benchmarks.scheduler import Case, churn, cost_rows, decode, plan_rows
from tests.unit.benchmarks.clock import SteppingClock

SMALL = Case("small", 32, 5, steps=20, clock_ns=SteppingClock(1000))


def test_crossings_are_spread_over_the_steps():
    """A sixteenth of a decoding batch crosses a block boundary in each step, and nothing else happens."""
    steps = decode(SMALL)
    assert [step.num_crossings for step in steps] == [2] * 20
    assert {step.record.decode_tokens for step in steps} == {32}
    assert {step.record.prefill_tokens for step in steps} == {0}


def test_all_cross_in_one_step():
    """In step: every sixteenth step appends a block to each, the others to none."""
    crossings = [step.num_crossings for step in decode(SMALL, in_step=True)]
    assert set(crossings) == {0, 32}
    assert crossings.count(32) == 1


def test_a_tenth_comes_and_goes():
    """The batch stays full while as many are admitted as finish: a tenth of it in each step, on average."""
    steps = churn(SMALL)
    assert {step.record.running for step in steps} == {32}
    assert sum(step.record.admitted for step in steps) == sum(step.record.finished for step in steps) == 64
    assert {len(step.plan.admitted) for step in steps} == {3, 4}
    assert {step.record.preempted for step in steps} == {0}


def test_each_churned_prompt_is_computed_whole():
    """None of it comes from the prefix cache, although that fills the pool: each new block evicts an old one."""
    steps = churn(SMALL)
    assert all(step.record.prefill_tokens == 200 * step.record.admitted for step in steps)
    assert all(step.record.cached_blocks > step.record.free_blocks for step in steps)


def test_costs_become_rows():
    """Two microseconds a step on this clock, held against the case's goal."""
    assert cost_rows(SMALL, decode(SMALL)) == [
        Row("small: step CPU, median", 2.0, "us", 5),
        Row("small: step CPU, p99", 2.0, "us"),
        Row("small: step CPU, max", 2.0, "us"),
    ]


def test_plans_become_a_row():
    """The largest plan counts, without what is paid for its crossings."""
    steps = decode(SMALL)
    (row,) = plan_rows(SMALL, steps)
    assert row.value == max(step.frame_bytes for step in steps) - 16
    assert (row.unit, row.goal) == ("bytes", 120)


def test_every_case_is_reported(monkeypatch):
    """The whole benchmark, with few steps: each case has its cost, and the calibration loop beside it."""

    def smaller(case):
        return dataclasses.replace(case, steps=20, pause_s=case.pause_s / 100, running=min(case.running, 256))

    for group in ("DECODES", "CHURNS"):
        monkeypatch.setattr(scheduler, group, tuple(smaller(case) for case in getattr(scheduler, group)))
    monkeypatch.setattr(scheduler, "CROSSING", smaller(scheduler.CROSSING))
    rows = {row.metric: row for row in scheduler.run()}
    names = [case.name for case in (*scheduler.DECODES, *scheduler.CHURNS, scheduler.CROSSING)]
    assert {f"{name}: step CPU, median" for name in names} <= rows.keys()
    assert {f"{name}: calibration loop" for name in names} <= rows.keys()
    assert rows["decode 256: step CPU, median"].goal == 100
    assert rows["decode 256: plan less 8 a crossing, max"].holds is True


@pytest.mark.parametrize("cases", [scheduler.DECODES, scheduler.CHURNS])
def test_no_case_is_long(cases):
    """What a case waits is bounded: ten seconds at most for all of a kind."""
    assert sum(case.steps * case.pause_s for case in cases) <= 10
