"""Tensors out of a GGUF file, dequantized piece by piece into the dtype asked for."""

import math

import numpy as np
import torch
from gguf import GGMLQuantizationType, quants

from services.executor.models.config import DecoderConfig
from services.executor.weights import layout
from services.executor.weights.errors import MalformedModel
from services.executor.weights.gguf_file import GgufFile, TensorInfo
from services.executor.weights.gguf_model import check_tensors

_PIECE_ELEMENTS = 1 << 22  # what is dequantized at once, so that a large tensor costs little beside itself


def load_tensors(gguf: GgufFile, config: DecoderConfig, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """All weights by canonical name.

    Raises:
        MalformedModel: tensors are missing, too many, of a wrong shape, or hold numbers that are not finite.
    """
    check_tensors(gguf, config)
    tensors = {}
    for canonical in layout.expected_shapes(config):
        tensor = _dequantized(gguf, gguf.tensors[layout.gguf_name(canonical)], dtype)
        tensors[canonical] = _halves_apart(tensor, canonical, config)
    return tensors


def _dequantized(gguf: GgufFile, info: TensorInfo, dtype: torch.dtype) -> torch.Tensor:
    columns = info.shape[-1]
    rows = math.prod(info.shape[:-1])
    row_bytes = info.num_bytes // rows
    kind = GGMLQuantizationType[info.storage.name]
    whole = torch.empty((rows, columns), dtype=dtype)
    step = max(1, _PIECE_ELEMENTS // columns)
    for start in range(0, rows, step):
        count = min(step, rows - start)
        packed = np.empty((count, row_bytes), np.uint8)
        gguf.read_into(info, start * row_bytes, packed.data)
        with np.errstate(all="ignore"):  # numbers that are not finite are found below
            values = quants.dequantize(packed, kind)
        piece = whole[start : start + count].copy_(torch.from_numpy(values))
        if not math.isfinite(piece.sum(dtype=torch.float64).item()):
            raise MalformedModel(
                f"GGUF: tensor {info.name[:80]} holds numbers that are not finite in {str(dtype).removeprefix('torch.')}"
            )
    return whole.reshape(info.shape)


def _halves_apart(tensor: torch.Tensor, canonical: str, config: DecoderConfig) -> torch.Tensor:
    """In Headway a head's halves are apart."""
    if not layout.is_interleaved(canonical, config):
        return tensor
    pairs = tensor.reshape(-1, config.head_dim // 2, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape).contiguous()
