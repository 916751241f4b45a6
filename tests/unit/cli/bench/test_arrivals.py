import math
import random
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cli.bench.arrivals import arrivals, gaps, offsets

rates = st.floats(1e-3, 1e4)
shapes = st.one_of(st.floats(1e-3, 100.0), st.just(math.inf))


@given(st.integers(1, 300), rates, shapes, st.integers(0, 2**32))
def test_arrivals_take_exactly_as_long_as_the_rate_says(num_requests, rate_per_s, burstiness, seed):
    """The last of n requests arrives at n / rate, to the bit; none before the one before it, none before the start."""
    times = arrivals(num_requests, rate_per_s, burstiness, random.Random(seed))
    assert len(times) == num_requests
    assert times[-1] == num_requests / rate_per_s
    assert all(0 <= earlier <= later for earlier, later in pairwise([0.0, *times]))


@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=50), st.floats(1e-6, 1e6))
def test_rescaling_keeps_the_proportions_of_gaps(gaps_s, total_s):
    """Whatever the gaps, the sum is exact; each share of the total stays what it was."""
    times = offsets(gaps_s, total_s)
    assert times[-1] == total_s
    sum_s = math.fsum(gap / 1e300 for gap in gaps_s)
    if sum_s > 1e-6:
        shares = [later - earlier for earlier, later in pairwise([0.0, *times])]
        for share, gap in zip(shares, gaps_s, strict=True):
            assert share == pytest.approx(gap / 1e300 / sum_s * total_s, rel=1e-6, abs=1e-9 * total_s)


def test_offsets_are_the_running_sum_stretched():
    """Gaps of 1, 3 and 4 in 4 seconds: halved."""
    assert offsets([1.0, 3.0, 4.0], 4.0) == [0.5, 2.0, 4.0]
    assert offsets([], 4.0) == []
    assert offsets([0.0, 0.0], 4.0) == [4.0, 4.0]


@pytest.mark.parametrize(("burstiness", "variation"), [(1.0, 1.0), (0.25, 2.0), (4.0, 0.5)])
def test_burstiness_is_the_shape_of_a_gamma_law(burstiness, variation):
    """Gaps have mean 1 / rate and a coefficient of variation of 1 / sqrt(burstiness)."""
    drawn = gaps(40_000, 5.0, burstiness, random.Random(2))
    assert fmean(drawn) == pytest.approx(0.2, rel=0.04)
    assert pstdev(drawn) / fmean(drawn) == pytest.approx(variation, rel=0.05)


def test_endless_burstiness_is_a_metronome():
    """All gaps are equal."""
    assert arrivals(4, 2.0, math.inf, random.Random(0)) == [0.5, 1.0, 1.5, 2.0]
