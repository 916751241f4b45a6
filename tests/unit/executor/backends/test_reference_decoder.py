"""The plain decoder: what overflows harms those who see it alone."""

import numpy as np
import pytest

from services.executor.backends.reference import ReferenceBackend
from services.executor.backends.reference_decoder import Decoder
from tests.support.steps import work_of
from tests.support.tiny_model import random_tensors, tiny_config

OVERFLOWS = 96
"""The token whose embedding makes a value of the first layer overflow."""


@pytest.fixture
def backend():
    """The first input is zero for all tokens but one, whose values it makes infinite."""
    config = tiny_config()
    tensors = random_tensors(config)
    tensors["embed.weight"][:, 0] = 0.0
    tensors["embed.weight"][OVERFLOWS, 0] = 5.0
    tensors["layers.0.v.weight"][0, 0] = 3.4e38
    return ReferenceBackend(Decoder(config, tensors), 8)


def test_an_overflow_stays_in_the_tokens_that_see_it(backend):
    """Rows before it keep every bit, and so does who shares their blocks; its own row and those after it are lost."""
    good, rows = list(range(16)), np.arange(18, dtype=np.int32)
    right = backend.forward([work_of([*good, 17, 18], [0, 1])], rows)
    found = backend.forward([work_of([*good, OVERFLOWS, 18], [2, 3])], rows)
    assert np.isfinite(right).all()
    assert np.array_equal(found[:16], right[:16])
    assert not np.isfinite(found[16:]).all(axis=1).any()
