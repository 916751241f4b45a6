"""Draws from many rows of logits, in numpy: what a back end's own way has to equal."""

from collections.abc import Sequence

import numpy as np

from services.executor import sampling
from services.executor.backends.backend import Ints, Rows
from services.executor.finite_rows import finite_rows
from services.executor.sampling import Draw


def drawn_ids(logits: Rows, rows: Ints, draws: Sequence[Draw], *, are_masked: bool = False) -> Ints:
    """As `Backend.draw`, one row after the other."""
    can_be_drawn = np.isfinite(logits.max(axis=-1)) if are_masked else finite_rows(logits)
    ids = np.full(len(rows), -1, np.int32)
    for i, (row, draw) in enumerate(zip(rows.tolist(), draws, strict=True)):
        if can_be_drawn[row]:
            ids[i] = sampling.draw(logits[row], draw.sampling, draw.uniform)
    return ids
