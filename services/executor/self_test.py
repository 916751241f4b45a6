"""The self-test: whether a back end's results depend on each sequence alone, tried on the model that will be served."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.executor.backends.backend import Backend, Rows
from services.executor.blocks import BLOCK_SIZE
from services.executor.slots import Slot
from services.executor.work import Work
from services.wire.execution import GREEDY, AdmittedSlot
from services.wire.message import int32_column

LENGTH = BLOCK_SIZE + 5
"""Tokens of the tried sequence: more than a block, and no whole number of them."""
_CROWD_LENGTHS = (1, 9, BLOCK_SIZE)
NUM_BLOCKS = 2 + len(_CROWD_LENGTHS)
"""A smaller pool cannot be tried."""


def is_batch_invariant(backend: Backend, vocab_size: int) -> bool:
    """Computes one sequence alone, in a crowd, and again in pieces in other blocks, as after a preemption.

    Writes to the first `NUM_BLOCKS` blocks of the KV cache, which must be free. True where all bits are the same.
    """
    if backend.num_blocks < NUM_BLOCKS:
        return False
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, vocab_size, LENGTH)
    tried = _slot(tokens, 0, 1)
    alone = _computed(backend, [Work(tried, 0, LENGTH)], LENGTH)
    crowd = [
        Work(_slot(rng.integers(0, vocab_size, length), block), 0, length)
        for block, length in enumerate(_CROWD_LENGTHS, start=2)
    ]
    crowded = _computed(backend, [crowd[0], Work(tried, 0, LENGTH), *crowd[1:]], LENGTH, first_row=crowd[0].count)
    again = _slot(tokens, NUM_BLOCKS - 1, 0)
    pieces = [_computed(backend, [Work(again, start, count)], count) for start, count in ((0, 7), (7, 13), (20, 1))]
    return all(np.array_equal(alone, other) for other in (crowded, np.concatenate(pieces)))


def _computed(backend: Backend, work: Sequence[Work], num_rows: int, *, first_row: int = 0) -> Rows:
    """The logits of some rows of a step, a copy."""
    wanted = np.arange(first_row, first_row + num_rows, dtype=np.int32)
    return backend.logits(backend.forward(work, wanted)).copy()


def _slot(tokens: npt.NDArray[np.int64], *blocks: int) -> Slot:
    length = len(tokens)
    admitted = AdmittedSlot(
        slot=0,
        token_ids=int32_column(tokens),
        prompt_length=length,
        token_limit=length,
        blocks=int32_column(blocks),
        sampling=GREEDY,
    )
    slot = Slot(admitted, ())
    for block in blocks:
        slot.append_block(block)
    return slot
