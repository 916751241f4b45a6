"""Rotary tables: the values of the definition, and memory that their size alone decides."""

import tracemalloc

import numpy as np
import pytest

from services.executor.models.rope_scaling import RopeScaling
from services.executor.models.rotary import cosines, sines
from tests.support.tiny_model import tiny_config

SCALINGS = [None, RopeScaling(kind="yarn", factor=4.0, original_context_length=128, attention_factor=1.1386)]


@pytest.mark.parametrize("scaling", SCALINGS, ids=["plain", "yarn"])
@pytest.mark.parametrize("head_dim", [2, 48, 128])
def test_a_table_is_the_beginning_of_the_whole_one_bit_for_bit(head_dim, scaling):
    """However many positions are asked for, and whatever pieces they are computed in."""
    config = tiny_config(head_dim=head_dim, context_length=100_003, rope_scaling=scaling, rope_theta=1.5)
    frequencies = np.array(config.inverse_frequencies(), np.float32)
    angles = (np.arange(config.context_length, dtype=np.float32)[:, None] * frequencies).astype(np.float64)
    for table, wave in ((cosines, np.cos), (sines, np.sin)):
        whole = (wave(angles) * config.rope_attention_factor).astype(np.float32)
        for num_positions in (config.context_length, 5000, 17, 3):
            assert np.array_equal(table(config, num_positions), whole[:num_positions])


def test_a_table_is_made_in_little_memory_beside_itself():
    """A long table needs its own bytes and a few megabytes more."""
    config = tiny_config(head_dim=128, context_length=1 << 24)
    tracemalloc.start()
    try:
        table = cosines(config, 1 << 17)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert table.nbytes == 1 << 25
    assert peak < table.nbytes + (10 << 20)
