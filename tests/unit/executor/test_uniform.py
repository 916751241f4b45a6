"""Uniforms by (seed, position)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.executor.uniform import uniform


@given(seed=st.integers(0, 2**64 - 1), position=st.integers(1, 2**40))
def test_uniform_is_the_first_word_of_philox(seed, position):
    """The number is numpy's Philox at key (seed, 0), counter position: numpy counts up before it makes a block."""
    key, counter = np.array([seed, 0], np.uint64), np.array([position - 1, 0, 0, 0], np.uint64)
    raw = int(np.random.Philox(key=key, counter=counter).random_raw())
    assert uniform(seed, position) == (raw >> 11) / 2**53


def test_uniforms_are_spread_evenly_over_positions_and_seeds():
    """Over positions of a seed, and over seeds at a position, each tenth of [0, 1) gets about a tenth."""
    for numbers in ([uniform(7, p) for p in range(20_000)], [uniform(s, 7) for s in range(20_000)]):
        counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
        assert counts.min() > 1800
        assert counts.max() < 2200
