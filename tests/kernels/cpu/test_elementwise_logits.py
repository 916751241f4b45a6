"""Compiled search of logits: the best, and those near it."""

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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("gap", [0.0, 0.25, 2.1, 7.0, np.inf])
def test_candidates_are_all_from_the_floor_up(ops, width, gap):
    """The ids that numpy finds at the floor of services/executor/sampling.py, in order, all counted."""
    logits = random_logits(6, width)
    found = ops.candidates(logits, np.full(6, gap), width)
    for row, best, count, ids in zip(logits, found.best, found.found, found.ids, strict=True):
        expected = np.flatnonzero(row >= float(row.max()) - gap)
        assert best == row.max()
        assert ids[:count].tolist() == expected.tolist()
        assert (ids[count:] == -1).all()


def test_floor_is_rounded_as_numpy_rounds_it(ops):
    """The floor is a Python float that is rounded to float32 before logits meet it."""
    best = np.float32(20.1)
    for gap in np.random.default_rng(2).uniform(0.1, 9, 200).tolist():
        floor = np.float32(float(best) - gap)
        logits = np.array([[best, floor, np.nextafter(floor, np.float32(-99)), np.nextafter(floor, best)]], np.float32)
        found = ops.candidates(logits, np.array([gap]), 4)
        assert found.ids[0, : found.found[0]].tolist() == np.flatnonzero(logits[0] >= float(best) - gap).tolist()


def test_candidates_beyond_the_capacity_are_counted_and_not_stored(ops):
    """Each row has its own gap and its own room."""
    logits = np.array([[1, 2, 3, 4], [4, 3, 2, 1]], np.float32)
    found = ops.candidates(logits, np.array([10.0, 1.0]), 3)
    assert found.found.tolist() == [4, 2]
    assert found.ids.tolist() == [[0, 1, 2], [0, 1, -1]]


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_row_that_is_not_finite_has_no_candidates(ops, poison):
    """Its best is NaN; other rows are served."""
    logits = random_logits(3, 700)
    logits[1, 600] = poison
    found = ops.candidates(logits, np.ones(3), 700)
    assert np.isnan(found.best).tolist() == [False, True, False]
    assert found.found[1] == 0
    assert (found.found[[0, 2]] > 0).all()
