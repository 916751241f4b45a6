import io
import math

import pytest
from rich.console import Console

from services.cli.bench.stats import Estimate
from services.cli.bench.summary import summarize
from services.cli.bench.table import LATENCY_NAMES, errors_in_words, interval, number, show
from tests.unit.cli.bench.records import record, run


@pytest.mark.parametrize(
    ("value", "scale", "words"),
    [(None, 1, "-"), (math.inf, 1000, "never"), (0.0123456, 1000, "12.3"), (1234.5678, 1, "1,235"), (0.5, 1, "0.5"), (12, 1, "12")],
)  # fmt: skip
def test_numbers_have_three_digits(value, scale, words):
    """Thousands are whole."""
    assert number(value, scale) == words


def test_an_interval_is_shown_where_there_is_one():
    """A single run gives none for a rate."""
    assert interval(Estimate(0.25, 0.125, 0.5), 1000) == "250 [125, 500]"
    assert interval(Estimate(0.25)) == "0.25"


def test_the_commonest_reasons_of_failure_are_told():
    """Three at most, by how often they came, over all repeats."""
    reasons = ["a", "b", "b", "c", "c", "c", "d", "d", "d", "d"]
    records = [record(n, status="failed", error=why, messages=()) for n, why in enumerate(reasons)]
    assert errors_in_words([run(*records[:5]), run(*records[5:])]) == [
        "4 x failed: d",
        "3 x failed: c",
        "2 x failed: b",
    ]


@pytest.mark.parametrize(("first", "whole"), [(0.01, True), (200.0, False)])
def test_latencies_fit_a_terminal(first, whole):
    """80 columns hold a row whole; of minutes an interval breaks its line, and no digit is cut."""
    out = Console(file=io.StringIO(), width=80, color_system=None)
    records = [record(n, messages=((0.1234 * n + first, 1), (0.1234 * n + first + 4, 1))) for n in range(40)]
    runs = [run(*records)]
    show(summarize(runs, None), runs, out)
    lines = out.file.getvalue().splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith("TTFT "))
    assert "\u2026" not in "".join(lines)
    named = [line[:17].strip() for line in lines[begin:] if line[:17].strip() in LATENCY_NAMES.values()]
    assert named == list(LATENCY_NAMES.values())
    assert (lines.index(next(line for line in lines if line.startswith("intervals"))) - begin == 7) == whole
