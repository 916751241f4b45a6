"""Draws of tokens from rows of logits, in parallel: services/executor/sampling.py is their definition."""

import numpy as np
import numpy.typing as npt

from kernels.cpu.library import check, load

DRAW = np.dtype(
    [
        *((name, np.float64) for name in ("temperature", "top_p", "min_p", "uniform")),
        ("top_k", np.int64),
    ]
)
"""What chooses a row's token: parameters, and a number from [0, 1)."""


def draw(
    logits: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int32],
    draws: npt.NDArray[np.void],
    *,
    are_masked: bool = False,
) -> npt.NDArray[np.int32]:
    """Draws a token from each of some rows; a token depends on its row and its draw alone.

    Args:
        logits: [any, vocabulary].
        rows: [draws], of `logits`.
        draws: [draws] of `DRAW`.
        are_masked: the rows hold no NaN, and -inf where no token may be drawn.

    Returns:
        [draws]; -1 where a logit of the row is not finite, of masked ones where the largest is not.
    """
    assert draws.dtype == DRAW
    assert len(rows) == len(draws)
    assert rows.dtype == np.int32
    assert len(rows) == 0 or 0 <= rows.min() <= rows.max() < len(logits)
    logits, rows, draws = np.ascontiguousarray(logits), np.ascontiguousarray(rows), np.ascontiguousarray(draws)
    ids = np.empty(len(rows), np.int32)
    pointers = rows.ctypes.data, draws.ctypes.data
    draw_all = load().handle.headway_draw
    check(draw_all(logits.ctypes.data, logits.shape[1], *pointers, len(rows), are_masked, ids.ctypes.data))
    return ids
