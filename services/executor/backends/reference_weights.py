"""The reference back end's weights: stored tensors of any kind, dequantized piece by piece into float32."""

import math

import numpy as np
import torch
from gguf import GGMLQuantizationType, quants

from services.executor.models.config import DecoderConfig
from services.executor.weights.errors import MalformedModel
from services.executor.weights.layout import expected_shapes
from services.executor.weights.stored_tensor import StoredTensor, StoredWeights

_PIECE_ELEMENTS = 1 << 22
"""What is dequantized at once, so that a large tensor costs little beside itself."""


def float32_tensors(weights: StoredWeights, config: DecoderConfig) -> dict[str, torch.Tensor]:
    """All weights by canonical name.

    Raises:
        MalformedModel: a tensor holds numbers that are not finite.
    """
    tensors = {}
    for name, shape in expected_shapes(config).items():
        tensor = _dequantized(weights.tensor(name))
        if not math.isfinite(tensor.sum(dtype=torch.float64).item()):
            raise MalformedModel(f"the tensor {name} holds numbers that are not finite")
        tensors[name] = tensor.reshape(shape)
    return tensors


def _dequantized(stored: StoredTensor) -> torch.Tensor:
    kind = GGMLQuantizationType[stored.kind]
    whole = torch.empty((stored.rows, stored.columns), dtype=torch.float32)
    step = max(1, _PIECE_ELEMENTS // stored.columns)
    for start in range(0, stored.rows, step):
        packed = stored.data[start : start + step]
        with np.errstate(all="ignore"):  # numbers that are not finite are found afterwards
            whole[start : start + step] = torch.from_numpy(quants.dequantize(packed, kind))
    return whole
