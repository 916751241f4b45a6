"""Which rows of logits are finite."""

import numpy as np
import pytest

from services.executor.finite_rows import finite_rows


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 2])
def test_one_value_that_is_not_finite_is_enough(value, place):
    """Wherever it stands; the ends of float32 are finite."""
    rows = np.full((3, 3), np.finfo(np.float32).max, np.float32)
    rows[2] *= -1
    rows[1, place] = value
    assert finite_rows(rows).tolist() == [True, False, True]
