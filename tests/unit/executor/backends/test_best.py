"""The best token of each row."""

import numpy as np
import pytest

from services.executor.backends.best import best_ids


def test_the_smallest_of_equals_wins():
    """Ties go to the smaller id."""
    logits = np.array([[1, 3, 3], [2, 2, 2]], np.float32)
    assert best_ids(logits, np.array([0, 1], np.int32)).tolist() == [1, 0]


def test_only_the_rows_that_are_named_are_looked_through():
    """In their order, some of them several times."""
    logits = np.array([[1, 3], [2, 1], [np.nan, 0]], np.float32)
    assert best_ids(logits, np.array([1, 0, 1], np.int32)).tolist() == [0, 1, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_has_no_best(value):
    """Its neighbour has."""
    logits = np.array([[1, value, 3], [5, 2, 2]], np.float32)
    assert best_ids(logits, np.array([0, 1], np.int32)).tolist() == [-1, 0]
