"""A row's outputs depend on that row alone, bit for bit."""

import numpy as np
import pytest

from kernels.cpu.library import KINDS
from tests.kernels.cpu.test_linear import packed, rows_of
from tests.kernels.cpu.weights import tensor


@pytest.fixture(params=KINDS)
def linear(request, library):
    """Two blocks and a bit, with a bias."""
    made = packed(library, tensor(request.param, 37, 512))
    made.set_bias(np.linspace(-1, 1, 37, dtype=np.float32))
    return made


def test_a_row_is_the_same_alone_and_in_crowds(linear):
    """In crowds of 1 to 70, first, last or in the middle, a row has the bits that it has alone."""
    x = rows_of(512, 70)
    alone = np.concatenate([linear.run(row[None]) for row in x])
    for crowd in range(1, 71):
        assert np.array_equal(linear.run(x[:crowd]), alone[:crowd])
        assert np.array_equal(linear.run(x[70 - crowd :]), alone[70 - crowd :])


def test_the_number_of_threads_changes_no_bit(linear, library):
    """One thread, two, or more than there are CPUs or blocks: the same bits."""
    x = rows_of(512, 23)
    library.set_threads(1)
    expected = linear.run(x)
    for threads in (2, 3, 7):
        library.set_threads(threads)
        for _ in range(5):
            assert np.array_equal(linear.run(x), expected)


def test_neighbours_cannot_matter_whatever_they_hold(linear):
    """Outliers, infinities and NaN in other rows leave a row's bits as they were."""
    x = rows_of(512, 17)
    expected = linear.run(x)
    for value in (1e30, np.inf, np.nan):
        spoiled = x.copy()
        spoiled[::2] = np.float32(value)
        assert np.array_equal(linear.run(spoiled)[1::2], expected[1::2])


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_a_neighbour_does_not_reach_into_an_odd_width(library, kind):
    """With an odd number of inputs the last pair takes nothing from the next row."""
    linear = packed(library, tensor(kind, 20, 33))
    x = rows_of(33, 9)
    expected = linear.run(x)
    x[1::2] = np.nan
    assert np.array_equal(linear.run(x)[::2], expected[::2])
