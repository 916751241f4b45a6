"""Draws of tokens from rows of logits, in parallel: services/executor/sampling.py is their definition."""

import numpy as np
import numpy.typing as npt

from kernels.cpu.library import load

DRAW = np.dtype(
    [
        *((name, np.float64) for name in ("temperature", "top_p", "min_p", "uniform")),
        ("top_k", np.int64),
    ]
)
"""What chooses a row's token: parameters, and a number from [0, 1)."""


def draw(
    logits: npt.NDArray[np.float32], rows: npt.NDArray[np.int32], draws: npt.NDArray[np.void]
) -> npt.NDArray[np.int32]:
    """Draws a token from each of some rows; a token depends on its row and its draw alone.

    Args:
        logits: [any, vocabulary]; none is NaN.
        rows: [draws], of `logits`.
        draws: [draws] of `DRAW`.

    Returns:
        [draws]; -1 where a row's largest logit is not finite.
    """
    assert draws.dtype == DRAW
    assert len(rows) == len(draws)
    assert rows.dtype == np.int32
    assert len(rows) == 0 or 0 <= rows.min() <= rows.max() < len(logits)
    logits, rows, draws = np.ascontiguousarray(logits), np.ascontiguousarray(rows), np.ascontiguousarray(draws)
    ids = np.empty(len(rows), np.int32)
    load().handle.headway_draw(
        logits.ctypes.data, logits.shape[1], rows.ctypes.data, draws.ctypes.data, len(rows), ids.ctypes.data
    )
    return ids
