"""Distributions."""

import pytest

from benchmarks.distribution import percentile, rows_of
from benchmarks.report import Row


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [(range(1, 101), 99, 99), (range(1, 201), 99, 198), (range(1, 51), 99, 50), ([7], 99, 7), ([3, 1, 2], 50, 2)],
)
def test_a_percentile_is_a_value_that_was_measured(values, percent, expected):
    """The smallest one that so many percent do not exceed, in whatever order they came."""
    assert percentile(list(values)[::-1], percent) == expected


def test_the_goal_is_the_medians():
    """p99 and maximum stand beside it without one."""
    assert rows_of("cost", [1.0, 2.0, 3.0, 40.0], "us", 3) == [
        Row("cost, median", 2.5, "us", 3),
        Row("cost, p99", 40.0, "us"),
        Row("cost, max", 40.0, "us"),
    ]
