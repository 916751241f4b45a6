"""Draws from many rows in numpy."""

import numpy as np
import pytest

from services.executor.backends.drawn import drawn_ids
from services.executor.sampling import Draw, draw
from services.wire.execution import GREEDY, Sampling


def test_each_draw_has_its_row_its_parameters_and_its_uniform():
    """One row may be drawn from several times, another not at all."""
    logits = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    rows = [2, 0, 2, 2]
    draws = [Draw(Sampling(temperature=9.0), u) for u in (0.1, 0.5, 0.9)] + [Draw(GREEDY, 0.0)]
    expected = [draw(logits[row], each.sampling, each.uniform) for row, each in zip(rows, draws, strict=True)]
    assert len(set(expected)) > 2
    assert drawn_ids(logits, np.array(rows, np.int32), draws).tolist() == expected


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_draws_nothing(poison, temperature):
    """Its neighbour does."""
    logits = np.array([[1.0, poison], [-90.0, 2.0]], np.float32)
    draws = [Draw(Sampling(temperature=temperature), 0.5)] * 2
    assert drawn_ids(logits, np.arange(2, dtype=np.int32), draws).tolist() == [-1, 1]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("best", [np.inf, -np.inf])
def test_a_masked_row_whose_largest_logit_is_not_finite_draws_nothing(best, temperature):
    """Its neighbour does, of which something is left."""
    logits = np.array([[-np.inf, best], [-np.inf, 2.0]], np.float32)
    draws = [Draw(Sampling(temperature=temperature), 0.5)] * 2
    assert drawn_ids(logits, np.arange(2, dtype=np.int32), draws, are_masked=True).tolist() == [-1, 1]
