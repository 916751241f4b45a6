"""Rotary tables: cosines and sines of the positions that can be computed."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.executor.models.config import DecoderConfig

Table = npt.NDArray[np.float32]

_PIECE_ELEMENTS = 1 << 18
"""What is computed at once, in float64: a table costs little beside itself."""


def cosines(config: DecoderConfig, num_positions: int) -> Table:
    """[num_positions, head_dim / 2]; angles are rounded to float32 as the models were trained."""
    return _table(config, num_positions, np.cos)


def sines(config: DecoderConfig, num_positions: int) -> Table:
    """The same as `cosines`."""
    return _table(config, num_positions, np.sin)


def _table(config: DecoderConfig, num_positions: int, wave: Callable[..., npt.NDArray[np.float64]]) -> Table:
    frequencies = np.array(config.inverse_frequencies(), np.float32)
    table = np.empty((num_positions, len(frequencies)), np.float32)
    step = max(1, _PIECE_ELEMENTS // len(frequencies))
    for start in range(0, num_positions, step):
        piece = table[start : start + step]
        angles = np.arange(start, start + len(piece), dtype=np.float32)[:, None] * frequencies
        piece[:] = wave(angles.astype(np.float64)) * config.rope_attention_factor
    return table
