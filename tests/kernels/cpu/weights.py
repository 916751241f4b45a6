"""Random tensors in GGUF's formats, and what they hold according to the gguf package."""

from dataclasses import dataclass

import gguf
import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

QUANTIZED = ("Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")
FLOATS = ("F32", "F16", "BF16")
_SCALES_AT = {"Q4_K": (0, 2), "Q6_K": (208,)}  # halves of a K-quant's block, for which gguf has no quantizer


@dataclass(frozen=True)
class Tensor:
    """A GGUF tensor [outputs, inputs]: its bytes, and its values in float32."""

    kind: str
    raw: npt.NDArray
    values: npt.NDArray[np.float32]

    @property
    def outputs(self) -> int:
        return len(self.values)


def inputs_of(kind: str) -> int:
    """A width that the kind can have: two and a half of 256, or two records."""
    return 512 if kind in _SCALES_AT else 640


def tensor(kind: str, outputs: int, inputs: int, seed: int = 0) -> Tensor:
    rng = np.random.default_rng([seed, outputs, inputs])
    quantization = GGMLQuantizationType[kind]
    if kind in _SCALES_AT:
        width, size = GGML_QUANT_SIZES[quantization]
        blocks = rng.integers(0, 256, (outputs, inputs // width, size), dtype=np.uint8)
        for at in _SCALES_AT[kind]:
            scales = rng.normal(0, 0.01, (outputs, inputs // width, 1)).astype(np.float16)
            blocks[:, :, at : at + 2] = scales.view(np.uint8)
        raw = blocks.reshape(outputs, -1)
    else:
        normal = rng.normal(0, 0.5, (outputs, inputs)).astype(np.float32)
        raw = np.ascontiguousarray(gguf.quants.quantize(normal, quantization))
    return Tensor(kind, raw, np.array(gguf.quants.dequantize(raw, quantization), np.float32).reshape(outputs, inputs))


def as_bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rounded to bfloat16 and back: to nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def as_int8(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Rows as the quantized kinds see them: the two largest values, the others int8 in groups of 32 times a scale."""
    rows = np.arange(len(x))[:, None]
    largest_two = np.argsort(-np.abs(x), axis=1, kind="stable")[:, :2]
    rest = x.copy()
    rest[rows, largest_two] = 0
    groups = rest.reshape(len(x), -1, 32)
    largest = np.abs(groups).max(-1, keepdims=True)
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
    scale = largest / np.float32(127)
    seen = (np.rint(groups * inverse).astype(np.float64) * scale).reshape(x.shape)
    seen[rows, largest_two] = x[rows, largest_two]
    return seen
