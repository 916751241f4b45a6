"""The outcome: what the result file promises, and what people read."""

import io

from rich.console import Console

from benchmarks.peers.outcome import best_rows, in_words, not_measured, rows, show
from benchmarks.peers.ratios import Cell, Spread
from benchmarks.peers.readings import Reading

SPEED = "output, tokens/s"


def cell(peer, values, ratios=None, *, workload="W1", metric=SPEED):
    return Cell(workload, metric, peer, Spread(tuple(values)), Spread(tuple(ratios)) if ratios else None)


CELLS = [cell("headway", [600, 580]), cell("a", [300, 310], [2.0, 1.9]), cell("b", [400, 410], [1.5, 1.4])]


def test_the_goal_is_on_the_best_peer():
    """1.5 times the peer that comes nearest, not the one that is easiest to beat."""
    (row,) = best_rows(CELLS)
    assert row.metric == "W1 output, headway against the best peer, b"
    assert (row.value, row.goal, row.holds) == (1.45, 1.5, False)


def test_what_is_not_promised_has_no_goal():
    """Memory stands beside the peers' for information."""
    assert best_rows([cell("a", [5], [2.0], workload="start", metric="peak memory, MiB")]) == []


def test_every_value_and_ratio_is_a_row():
    """With its unit apart, and its spread where there were several."""
    made = [(row.metric, row.value, row.unit) for row in rows(CELLS[:2])]
    assert made == [
        ("W1 output, headway", 590, "tokens/s"),
        ("W1 output, headway, least", 580, "tokens/s"),
        ("W1 output, headway, most", 600, "tokens/s"),
        ("W1 output, a", 305, "tokens/s"),
        ("W1 output, a, least", 300, "tokens/s"),
        ("W1 output, a, most", 310, "tokens/s"),
        ("W1 output, headway against a", 1.95, "times better"),
        ("W1 output, headway against a, least", 1.9, "times better"),
        ("W1 output, headway against a, most", 2.0, "times better"),
        ("W1 output, headway against the best peer, a", 1.95, "times better"),
    ]


def test_a_peer_that_could_not_be_had_is_said():
    """With its reason, by peer, workload and round."""
    readings = [Reading(0, 1, "a", "start", {}, "no matching distribution"), Reading(0, 0, "headway", "W1", {SPEED: 1})]
    assert not_measured(readings) == {"a, start, round 1": "no matching distribution"}


def test_a_cell_says_value_and_ratio_with_their_spread():
    """One measurement has no spread; what was not measured is a dash."""
    assert in_words(CELLS[1]) == "305 (300-310) 1.95x (1.9-2)"
    assert in_words(cell("a", [7.5], [0.5])) == "7.5 0.5x"
    assert in_words(None) == "-"


def test_a_table_has_a_column_for_each_peer_that_was_measured():
    """In the order of the peers; who has nothing in this workload is left out."""
    out = io.StringIO()
    show(CELLS, ["headway", "c", "b", "a"], Console(file=out, width=200))
    lines = [line.split() for line in out.getvalue().splitlines() if line.strip()]
    assert lines[0] == ["W1"]
    assert lines[1] == ["headway", "b", "a"]
    assert lines[2][:2] == ["output,", "tokens/s"]
