"""The self-test of batch invariance."""

import numpy as np
import pytest

from services.executor.self_test import NUM_BLOCKS, is_batch_invariant
from tests.support.tiny_model import tiny_backend, tiny_config

VOCAB = tiny_config().vocab_size


class Spoiled:
    """A back end whose rows differ by a bit when a step has the given property."""

    def __init__(self, backend, spoils):
        self._backend = backend
        self._spoils = spoils
        self.num_blocks = backend.num_blocks

    def forward(self, work, wanted):
        hidden = self._backend.forward(work, wanted)
        return np.nextafter(hidden, np.float32(9)) if self._spoils(work) else hidden

    def logits(self, hidden):
        return self._backend.logits(hidden)


def test_the_reference_is_invariant():
    """Alone, in a crowd and in pieces it computes the same bits."""
    assert is_batch_invariant(tiny_backend(NUM_BLOCKS), VOCAB)


@pytest.mark.parametrize(
    "spoils",
    [lambda work: len(work) > 1, lambda work: work[0].count == 1, lambda work: work[0].start == 7],
    ids=["in a crowd", "a token alone", "in the middle"],
)
def test_a_back_end_that_depends_on_more_is_found(spoils):
    """One bit is enough."""
    assert not is_batch_invariant(Spoiled(tiny_backend(NUM_BLOCKS), spoils), VOCAB)


def test_a_back_end_may_reuse_the_memory_of_its_logits():
    """They are compared with those of before, not with themselves."""
    spoiled = Spoiled(tiny_backend(NUM_BLOCKS), lambda work: work[0].start == 7)
    memory = np.empty((64, VOCAB), np.float32)
    compute = spoiled.logits

    def logits(hidden):
        rows = memory[: len(hidden)]
        rows[:] = compute(hidden)
        return rows

    spoiled.logits = logits
    assert not is_batch_invariant(spoiled, VOCAB)


def test_a_pool_too_small_to_try_promises_nothing():
    """What was not tried is not claimed."""
    assert not is_batch_invariant(tiny_backend(NUM_BLOCKS - 1), VOCAB)
