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
        self.num_positions = backend.num_positions

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


def small_backend(num_blocks, context_length):
    return tiny_backend(num_blocks, tiny_config(context_length=context_length))


@pytest.mark.parametrize("context_length", [3, 4, 8, 16, 17, 20, 21, 22])
@pytest.mark.parametrize("num_blocks", range(1, NUM_BLOCKS + 1))
def test_a_small_pool_and_a_short_context_are_tried_as_far_as_they_go(num_blocks, context_length):
    """No position and no block past their ends is asked for, and what is computed twice is compared."""
    backend = small_backend(num_blocks, context_length)
    asked = []

    def note(work):
        asked.extend((item.end, item.slot.blocks.tolist()) for item in work)
        return False

    assert is_batch_invariant(Spoiled(backend, note), VOCAB)
    assert max(end for end, _ in asked) == min(context_length, 16 if num_blocks < 3 else 21)
    assert {block for _, blocks in asked for block in blocks} <= set(range(num_blocks))
    assert all(end <= 16 * len(set(blocks)) for end, blocks in asked)


@pytest.mark.parametrize(
    ("num_blocks", "spoils"),
    [(1, lambda work: work[0].count == 1), (2, lambda work: len(work) > 1), (4, lambda work: len(work) == 3)],
    ids=["pieces in one block", "two in two blocks", "three in four blocks"],
)
def test_a_small_pool_is_not_taken_at_its_word(num_blocks, spoils):
    """What can happen in it is tried: pieces always, a crowd from two blocks on."""
    assert not is_batch_invariant(Spoiled(small_backend(num_blocks, 1024), spoils), VOCAB)


def test_a_whole_trial_crosses_a_block_in_a_crowd_of_four():
    """Where context and pool have room, the sequence has two blocks and three others beside it."""
    steps = []
    is_batch_invariant(Spoiled(tiny_backend(64), lambda work: steps.append([item.count for item in work])), VOCAB)
    assert steps == [[21], [1, 21, 9, 16], [7], [13], [1]]
