from dataclasses import replace

import pytest

from services.cli.bench.lengths import Lengths
from services.cli.bench.measure import Bench
from services.cli.bench.slo import Slo
from services.cli.bench.summary import summarize
from services.cli.bench.sweep import SHARES, Point, Sweep, capacity, sweep
from services.cli.bench.target import Broken
from services.cli.bench.workload import Pace, Shape
from services.cli.console import Failed
from tests.unit.cli.bench.records import record, run, run_of_ttfts
from tests.unit.cli.bench.targets import FakeTarget

SHAPE = Shape(
    name="mine", num_requests=4, input_lengths=Lengths.of("3"), output_lengths=Lengths.of("2"), pace=Pace(concurrency=4)
)


def swept(*points):
    """A sweep of (rate, runs)."""
    slo = Slo.of("ttft_p99=1s")
    return Sweep(
        capacity_per_s=10.0,
        points=[
            Point(share=rate / 10, rate_per_s=rate, runs=[ran], summary=summarize([ran], slo)) for rate, ran in points
        ],
    )


def test_capacity_counts_neither_the_crowd_at_the_start_nor_the_draining():
    """Two at a time, each 2 s of 2 tokens, at 0, 2 and 4: from the first refill at 2 to the last at 4, 4 tokens in 2 s."""
    records = [
        record(n, sent_s=begun, messages=((begun + 1.0, 1), (begun + 2.0, 1)))
        for n, begun in enumerate((0, 0, 2, 2, 4, 4))
    ]
    assert capacity(run(*records, duration_s=6.0), 2) == 1.0


def test_capacity_of_a_crowd_without_a_refill_is_that_of_the_whole_run():
    """Four tokens in 10 s, two a request; nothing answered is no capacity."""
    assert capacity(run(record(0), record(1), duration_s=10.0), 2) == 0.2
    assert capacity(run(record(0, status="failed")), 2) == 0.0


def test_the_knee_leaves_out_loads_that_failed():
    """TTFT grows tenfold at 12 requests/s; at 13 most fail, and the few answered ones are fast."""
    found = swept(
        *[(float(rate), run_of_ttfts(0.1)) for rate in (1, 4, 7, 10)],
        (12.0, run_of_ttfts(1.0)),
        (13.0, run_of_ttfts(0.05, failed=5)),
    )
    assert found.knee.rate_per_s == 10.0


def test_the_load_that_holds_is_below_the_first_that_does_not():
    """A lucky higher load does not count."""
    found = swept(
        (1.0, run_of_ttfts(0.1)), (2.0, run_of_ttfts(0.2)), (3.0, run_of_ttfts(2.0)), (4.0, run_of_ttfts(0.1))
    )
    assert found.highest_that_holds.rate_per_s == 2.0
    assert swept((1.0, run_of_ttfts(2.0))).highest_that_holds is None


def bench(target):
    return Bench(target=target, timeout_s=5.0, announce=lambda _workload, _what: lambda _record: None)


async def test_a_sweep_runs_shares_of_the_capacity_it_found():
    """Rates are 10 to 120 % of it, and no load sees the words of another."""
    target = FakeTarget(0.001)
    found = await sweep(bench(target), SHAPE, seed=0, repeats=2, duration_s=0.02, concurrency=4, slo=None)
    assert [point.share for point in found.points] == list(SHARES)
    assert [point.rate_per_s for point in found.points] == pytest.approx(
        [share * found.capacity_per_s for share in SHARES]
    )
    assert {len(point.runs) for point in found.points} == {2}
    repeats = [ran.repeat for point in found.points for ran in point.runs]
    assert len(set(repeats)) == len(repeats)


async def test_a_target_that_answers_nothing_has_no_capacity():
    """The reason of the first failure is told."""

    async def fail():
        raise Broken("out of memory")

    target = FakeTarget(hooks=dict.fromkeys(range(100), fail))
    with pytest.raises(Failed, match="out of memory"):
        await sweep(bench(target), SHAPE, seed=0, repeats=1, duration_s=0.1, concurrency=4, slo=None)


async def test_a_sweep_of_conversations_is_of_single_requests():
    """What arrives by itself waits for no answer before it."""
    talk = replace(SHAPE, turns=2)
    found = await sweep(bench(FakeTarget()), talk, seed=0, repeats=1, duration_s=0.001, concurrency=2, slo=None)
    assert {each.conversation for point in found.points for ran in point.runs for each in ran.records} == {None}
