import math
import random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.cli.bench.stats import Estimate, bootstrap, estimate, method, over_repeats, percentile

values = st.lists(st.floats(0, 1e6), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("percent", "value"), [(0.5, 1), (50, 50), (90, 90), (99, 99), (99.1, 100), (100, 100), (29, 29), (58, 58)]
)
def test_a_percentile_of_one_to_hundred_is_itself(percent, value):
    """Nearest rank: the smallest value that so many percent do not exceed; floats do not push it up by one."""
    assert percentile(random.Random(0).sample(range(1, 101), 100), percent) == value


def test_a_percentile_takes_the_slower_of_two():
    """Nothing is interpolated: of 64 values the 99th percentile is the largest, 63.36 rounded up."""
    assert percentile([*range(63), 1000], 99) == 1000
    assert percentile([1.0, math.inf], 50) == 1.0
    assert percentile([1.0, math.inf], 51) == math.inf


@given(values, st.floats(0.1, 100))
def test_a_percentile_is_numpys_inverted_distribution(data, percent):
    """The definition has a name in numpy, and gives a value that was measured."""
    assert percentile(data, percent) in data
    below = sum(value <= percentile(data, percent) for value in data)
    assert below / len(data) >= percent / 100 - 1e-9
    assert percentile(data, 50) == np.percentile(data, 50, method="inverted_cdf")


def test_an_interval_over_repeats_is_students():
    """1, 2, 3: mean 2, deviation 1, t of two degrees of freedom 4.303, so 2 +- 4.303 / sqrt 3; never below zero."""
    found = over_repeats([1.0, 2.0, 3.0])
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 0.0, 4.4844), abs=1e-4)
    found = over_repeats([10.0, 12.0])
    assert (found.low, found.high) == pytest.approx((0.0, 11 + 12.706), abs=1e-3)
    assert over_repeats([5.0]) == Estimate(5.0)
    assert over_repeats([5.0] * 40) == Estimate(5.0, 5.0, 5.0)


def test_a_repeat_in_which_it_never_ended_makes_the_mean_endless():
    """Infinity is passed on, and is null in JSON."""
    found = over_repeats([1.0, math.inf])
    assert found == Estimate(math.inf, 1.0, math.inf)
    assert found.as_dict() == {"value": None, "low": 1.0, "high": None}


def test_the_bootstrap_covers_the_true_median_about_as_often_as_it_says():
    """Of 100 samples of a known law, 95 % intervals hold its median at least 88 times."""
    rng = random.Random(3)
    hits = 0
    for _ in range(100):
        [found] = bootstrap([[rng.expovariate(1.0)] for _ in range(60)], [50])
        hits += found.low <= math.log(2) <= found.high
    assert 88 <= hits <= 100


def test_the_bootstrap_draws_whole_requests():
    """A thousand gaps of two requests are two draws: all from the first, or all from the second, or both."""
    [found] = bootstrap([[1.0] * 500, [3.0] * 500], [None])
    assert (found.value, found.low, found.high) == (2.0, 1.0, 3.0)


@settings(max_examples=25)
@given(st.lists(values, min_size=1, max_size=8))
def test_the_bootstrap_tells_the_value_of_the_data_within_its_interval_of_them(groups):
    """The estimate itself is not resampled, and no end leaves what was measured."""
    flat = [value for group in groups for value in group]
    found, mean = bootstrap(groups, [90, None])
    assert found.value == percentile(flat, 90)
    assert min(flat) <= found.low <= found.high <= max(flat)
    assert mean.value == pytest.approx(fmean(flat))


def test_a_request_that_never_ended_is_endless_only_where_it_was_drawn():
    """One of two groups: resamples without it have a finite mean, those with it none."""
    [mean, median] = bootstrap([[1.0], [math.inf]], [None, 50])
    assert (mean.value, mean.low, mean.high) == (math.inf, 1.0, math.inf)
    assert (median.value, median.low, median.high) == (1.0, 1.0, math.inf)


def test_the_same_data_give_the_same_interval():
    """The dice are seeded: a report made again says the same."""
    groups = [[float(value)] for value in range(50)]
    assert bootstrap(groups, [99]) == bootstrap(groups, [99])


def test_an_estimate_over_repeats_is_the_mean_of_their_percentiles():
    """Medians of 2 and 4; a repeat without a value does not count; nothing at all gives nothing."""
    [found] = estimate([[[1.0, 2.0], [9.0]], [[4.0]], [[]]], [50])
    assert found.value == 3.0
    mean, largest = estimate([[[1.0], [3.0]], [[6.0]]], [None, 100])
    assert (mean.value, largest.value) == (4.0, 4.5)
    assert estimate([[[]], [[]]], [50]) == estimate([[[]]], [50]) == []


def test_the_way_intervals_are_made_is_told():
    """A reader must know whether they say how runs differ."""
    assert "bootstrap" in method(1)
    assert "3 repeats" in method(3)
