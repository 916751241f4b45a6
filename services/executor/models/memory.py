"""What a model needs of memory: weights, KV cache, and how many sequences fit. Needs neither torch nor numpy."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from services.executor.models.config import DecoderConfig
from services.executor.weights.layout import expected_shapes

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
BLOCK_SIZE = 16
MEMORY_UTILIZATION = 0.9
MAX_RUNTIME_BYTES = 3_000_000_000
_UNITS = {"b": 1} | {f"{p}{s}": b**n for n, p in enumerate("kmgt", 1) for s, b in (("b", 1000), ("ib", 1024))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One device's share of a model in its memory, at one tensor parallelism."""

    tensor_parallel: int
    weight_bytes: int  # on each device
    usable_bytes: int  # for weights and pool together
    pool_tokens: int  # tokens whose keys and values fit beside the weights
    num_sequences: int  # of the context asked for

    @property
    def fits(self) -> bool:
        """Whether at least one sequence can run."""
        return self.num_sequences > 0


def num_parameters(config: DecoderConfig) -> int:
    """Numbers in the model; tied embeddings count once."""
    return sum(math.prod(shape) for shape in expected_shapes(config).values())


def weight_bytes(config: DecoderConfig, dtype: str, tensor_parallel: int = 1) -> int:
    """Bytes of weights on each device. Norms, and KV heads fewer than devices, are there on every device that needs them."""
    kv_shards = min(tensor_parallel, config.num_kv_heads)
    total = 0
    for name, shape in expected_shapes(config).items():
        module, kind = name.split(".")[-2:]
        shards = tensor_parallel
        if module.endswith("norm") or (module in ("o", "down") and kind == "bias"):
            shards = 1
        elif module in ("k", "v"):
            shards = kv_shards
        total += math.ceil(math.prod(shape) / shards)
    return total * DTYPE_BYTES[dtype]


def kv_dtype(dtype: str) -> Literal["float32", "bfloat16"]:
    """The precision of keys and values beside weights in `dtype`: float32 where everything is to be."""
    return "float32" if dtype == "float32" else "bfloat16"


def kv_bytes_per_token(config: DecoderConfig, dtype: str, tensor_parallel: int = 1) -> int:
    """Bytes of keys and values of one token, in all layers, on each device."""
    heads = math.ceil(config.num_kv_heads / tensor_parallel)
    return 2 * config.num_layers * heads * config.head_dim * DTYPE_BYTES[dtype]


def fit(config: DecoderConfig, memory_bytes: int, dtype: str, context: int, tensor_parallel: int = 1) -> Fit:
    """What fits a device of `memory_bytes`: of nine tenths, less a sixteenth (at most 3 GB) for activations and runtime."""
    weights = weight_bytes(config, dtype, tensor_parallel)
    runtime = min(MAX_RUNTIME_BYTES, memory_bytes // 16)
    usable = int(memory_bytes * MEMORY_UTILIZATION) - runtime
    blocks = max(0, usable - weights) // (BLOCK_SIZE * kv_bytes_per_token(config, dtype, tensor_parallel))
    return Fit(
        tensor_parallel=tensor_parallel,
        weight_bytes=weights,
        usable_bytes=usable,
        pool_tokens=blocks * BLOCK_SIZE,
        num_sequences=blocks // math.ceil(context / BLOCK_SIZE),
    )


def smallest_tensor_parallel(config: DecoderConfig, memory_bytes: int, dtype: str, context: int) -> int | None:
    """The fewest devices of `memory_bytes` that run one sequence of `context` tokens; None where no number of them does."""
    fitting = (n for n in parallel_degrees(config) if fit(config, memory_bytes, dtype, context, n).fits)
    return next(fitting, None)


def parallel_degrees(config: DecoderConfig) -> Iterator[int]:
    """The numbers of devices among which the heads divide, in rising order."""
    for degree in range(1, config.num_heads + 1):
        kv_divides = config.num_kv_heads % degree == 0 or degree % config.num_kv_heads == 0
        if config.num_heads % degree == 0 and kv_divides:
            yield degree


def parse_bytes(text: str) -> int:
    """The bytes in '80GB', '141 GB' (powers of 1000) or '16GiB' (powers of 1024).

    Raises:
        ValueError: `text` is no such amount.
    """
    amount = text.strip().lower()
    digits = amount.rstrip("bikmgt ")
    unit = amount[len(digits) :].strip()
    try:
        number = float(digits)
    except ValueError:
        number = math.nan
    if number <= 0:
        raise ValueError(f"{text!r}: an amount of memory must be more than 0")
    if not unit and math.isfinite(number):
        raise ValueError(f"{text!r} has no unit; write it as {text.strip()}GB or {text.strip()}GiB")
    scale = _UNITS.get(unit)
    if scale is None or not number * scale < 1e18:
        raise ValueError(f"{text!r} is no amount of memory; write it as 80GB or 16GiB")
    return int(number * scale)
