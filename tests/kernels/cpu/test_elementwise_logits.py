"""Compiled search of logits for the best."""

import numpy as np
import pytest

WIDTHS = [1, 16, 63, 64, 511, 512, 513, 5000]


def random_logits(rows, width, seed=0):
    """Of few different values, so that many are equal."""
    return np.random.default_rng(seed).integers(-40, 40, (rows, width)).astype(np.float32) / 4


@pytest.mark.parametrize("width", WIDTHS)
def test_argmax_is_the_first_of_the_largest(ops, width):
    """Of equals the smallest index, as numpy's; -0 and 0 are equal."""
    logits = random_logits(20, width)
    logits[0] = -1.0
    logits[1] = np.where(np.arange(width) % 2, 0.0, -0.0)
    logits[2] = np.finfo(np.float32).min
    assert ops.argmax(logits).tolist() == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_argmax_refuses_rows_that_are_not_finite(ops, width, poison):
    """A NaN or an infinity anywhere in a row gives -1 for that row alone."""
    for place in {0, width // 2, width - 1}:
        logits = random_logits(3, width)
        logits[1, place] = poison
        expected = logits.argmax(axis=1)
        expected[1] = -1
        assert ops.argmax(logits).tolist() == expected.tolist()
