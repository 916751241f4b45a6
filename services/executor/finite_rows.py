"""Which rows of logits are finite: what a request gets from one that is not is an error, never a token."""

import numpy as np
import numpy.typing as npt


def finite_rows(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """[rows] of [rows, vocabulary]: whether none of the row is infinite or NaN."""
    return np.asarray(np.isfinite(logits.max(axis=-1)) & np.isfinite(logits.min(axis=-1)))
