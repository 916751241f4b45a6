"""The self-test: whether a back end's results depend on each sequence alone, tried on the model that will be served."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from services.executor.backends.backend import Backend, Rows
from services.executor.blocks import BLOCK_SIZE
from services.executor.slots import Slot
from services.executor.work import Work
from services.wire.execution import GREEDY, AdmittedSlot
from services.wire.message import int32_column

LENGTH = BLOCK_SIZE + 5
"""Tokens of the tried sequence where there is room: more than a block, and no whole number of them."""
_CROWD_LENGTHS = (1, 9, BLOCK_SIZE)
NUM_BLOCKS = 2 + len(_CROWD_LENGTHS)
"""What a whole trial takes."""


def is_batch_invariant(backend: Backend, vocab_size: int) -> bool:
    """Computes one sequence alone, in a crowd, and again in pieces in other blocks, as after a preemption.

    Sequences are cut to the model's context, and the crowd to the pool: in a smaller one no larger crowd will meet. Writes
    to at most the first `NUM_BLOCKS` blocks of the KV cache, which must be free. True where all bits are the same.
    """
    num_blocks = min(backend.num_blocks, NUM_BLOCKS)
    num_own = 2 if backend.num_positions > BLOCK_SIZE and num_blocks > 2 else 1
    length = min(LENGTH, backend.num_positions, num_own * BLOCK_SIZE)
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, vocab_size, length)
    tried = _slot(tokens, *range(num_own))
    alone = _computed(backend, [Work(tried, 0, length)], length)
    crowd = []
    for block, count in zip(range(num_own, num_blocks), _CROWD_LENGTHS, strict=False):
        mate = _slot(rng.integers(0, vocab_size, min(count, length)), block)
        crowd.append(Work(mate, 0, mate.length))
    crowded = _computed(
        backend,
        [*crowd[:1], Work(tried, 0, length), *crowd[1:]],
        length,
        first_row=sum(mate.count for mate in crowd[:1]),
    )
    again = _slot(tokens, *[num_blocks - 1, 0][:num_own])
    pieces = [
        _computed(backend, [Work(again, start, end - start)], end - start)
        for start, end in pairwise((0, length // 3, length - 1, length))
    ]
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
