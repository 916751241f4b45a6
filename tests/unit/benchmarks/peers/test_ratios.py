"""Ratios: above one is better for Headway, and each visit is compared with the one beside it."""

import pytest

from benchmarks.peers.ratios import cells, times_better
from benchmarks.peers.readings import Reading

SPEED, LATENCY = "output, tokens/s", "TTFT p50, ms"


def reading(place, peer, values, *, number=0, workload="W1", problem=""):
    return Reading(number, place, peer, workload, values, problem)


def cell(readings, metric, peer):
    return next(each for each in cells(readings) if (each.metric, each.peer) == (metric, peer))


@pytest.mark.parametrize(
    ("ours", "theirs", "more", "ratio"), [(600, 400, True, 1.5), (80, 120, False, 1.5), (200, 100, False, 0.5)]
)
def test_above_one_is_better_for_headway(ours, theirs, more, ratio):
    """Of a speed ours over theirs, of a time theirs over ours."""
    assert times_better(ours, theirs, more=more) == ratio


@pytest.mark.parametrize(("ours", "theirs", "more"), [(600, 0, True), (0, 120, False)])
def test_nothing_is_divided_by_zero(ours, theirs, more):
    """There is no ratio where one side measured nothing."""
    assert times_better(ours, theirs, more=more) is None


def test_a_visit_is_compared_with_headway_beside_it():
    """Machines slow down in the course of an hour: the far visit would give 6, the near one gives 2."""
    readings = [
        reading(0, "headway", {SPEED: 600}),
        reading(1, "a", {SPEED: 300}),
        reading(2, "b", {SPEED: 100}),
        reading(3, "headway", {SPEED: 200}),
    ]
    assert cell(readings, SPEED, "a").ratio.median == 2
    assert cell(readings, SPEED, "b").ratio.median == 2


def test_no_round_is_compared_with_another():
    """Each round has prompts of its own."""
    readings = [reading(0, "headway", {SPEED: 600}), reading(1, "a", {SPEED: 300}, number=1)]
    assert cell(readings, SPEED, "a").ratio is None


def test_ratios_are_taken_before_their_median():
    """Rounds that ran at half speed on both sides do not blur the ratio: 2, 3 and 2 make 2."""
    readings = []
    for number, (ours, theirs) in enumerate([(600, 300), (300, 100), (200, 100)]):
        readings += [
            reading(2 * number, "headway", {SPEED: ours}, number=number),
            reading(2 * number + 1, "a", {SPEED: theirs}, number=number),
        ]
    measured = cell(readings, SPEED, "a")
    assert (measured.ratio.least, measured.ratio.median, measured.ratio.most) == (2, 2, 3)
    assert (measured.value.least, measured.value.median, measured.value.most) == (100, 100, 300)


def test_a_reading_with_a_problem_counts_for_nothing():
    """Neither as a value nor as what others are compared with."""
    readings = [
        reading(0, "headway", {LATENCY: 50}, problem="1 of 64 requests ended failed"),
        reading(1, "a", {LATENCY: 100}),
        reading(2, "headway", {LATENCY: 80}),
    ]
    assert cell(readings, LATENCY, "headway").value.values == (80,)
    assert cell(readings, LATENCY, "a").ratio.median == 1.25


def test_a_metric_that_one_side_lacks_has_no_ratio():
    """Conversations have turns that nobody else has; what there is has its cell."""
    readings = [reading(0, "headway", {SPEED: 1}), reading(1, "a", {SPEED: 2, LATENCY: 100})]
    assert [(each.metric, each.peer, each.ratio is None) for each in cells(readings)] == [
        (SPEED, "headway", True),
        (SPEED, "a", False),
        (LATENCY, "a", True),
    ]


def test_prefix_hits_are_told_and_not_compared():
    """70 % against 35 % is not twice as good."""
    hits = "cached prompt tokens, %"
    readings = [reading(0, "headway", {hits: 70}), reading(1, "a", {hits: 35})]
    assert cell(readings, hits, "a").ratio is None
    assert cell(readings, hits, "a").value.median == 35
