"""Draws from many rows of logits, in numpy: what a back end's own way has to equal."""

from collections.abc import Sequence

import numpy as np

from services.executor import sampling
from services.executor.backends.backend import Ints, Rows
from services.executor.sampling import Draw


def drawn_ids(logits: Rows, rows: Ints, draws: Sequence[Draw]) -> Ints:
    """As `Backend.draw`, one row after the other."""
    ids = np.full(len(rows), -1, np.int32)
    for i, (row, draw) in enumerate(zip(rows.tolist(), draws, strict=True)):
        if np.isfinite(logits[row].max()):
            ids[i] = sampling.draw(logits[row], draw.sampling, draw.uniform)
    return ids
