"""Rotary tables: cosines and sines of every position."""

import numpy as np
import numpy.typing as npt

from services.executor.models.config import DecoderConfig

Table = npt.NDArray[np.float32]


def rotary_tables(config: DecoderConfig) -> tuple[Table, Table]:
    """Cosines and sines, [context, head_dim / 2]; angles are rounded to float32 as the models were trained."""
    frequencies = np.array(config.inverse_frequencies(), np.float32)
    angles = np.arange(config.context_length, dtype=np.float32)[:, None] * frequencies
    factor = config.rope_attention_factor
    cos, sin = (wave(angles.astype(np.float64)) * factor for wave in (np.cos, np.sin))
    return cos.astype(np.float32), sin.astype(np.float32)
