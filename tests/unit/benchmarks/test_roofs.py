"""The machine's roofs are measured by a program that is compiled for a level."""

import pytest

from benchmarks import roofs
from kernels.cpu.library import load


@pytest.mark.deep
def test_the_roofs_of_this_machine_are_measured():
    """At the level in use: every roof is a rate, and vectors of eight-bit numbers outrun those of floats."""
    (measured,) = roofs.measure(load().level, [1]).values()
    assert measured.int8 > measured.bf16 > 0
    assert measured.fp32 > 0
    assert measured.read > 0
