import math

import pytest

from services.cli.bench.stats import Estimate
from services.cli.bench.table import errors_in_words, interval, number
from tests.unit.cli.bench.records import record, run


@pytest.mark.parametrize(
    ("value", "scale", "words"),
    [(None, 1, "-"), (math.inf, 1000, "never"), (0.0123456, 1000, "12.35"), (1234.5678, 1, "1,235"), (0.5, 1, "0.5"), (12, 1, "12")],
)  # fmt: skip
def test_numbers_have_four_digits(value, scale, words):
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
