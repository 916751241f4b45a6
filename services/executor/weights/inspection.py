"""What a model is and what it needs, from its config.json or GGUF header alone. Needs neither torch nor numpy."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.executor.models import memory
from services.executor.models.config import DecoderConfig
from services.executor.models.hf_config import read_hf_config
from services.executor.weights import gguf_model, hf_model, store
from services.executor.weights.errors import ModelNotFound
from services.executor.weights.gguf_file import is_gguf
from services.executor.weights.json_file import read_object


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """The facts of a model, and with a memory size what fits. Bytes are of each device where devices share the model."""

    name: str
    config: DecoderConfig
    num_parameters: int
    weight_bytes_by_dtype: Mapping[str, int]  # of the whole model
    dtype: str
    context: int
    kv_bytes_per_token: int
    memory_bytes: int | None
    fit: memory.Fit | None  # None: no memory size was given
    smallest_tensor_parallel: int | None  # None: no memory size was given, or no number of devices is enough


def inspect(
    name_or_path: str,
    *,
    memory_bytes: int | None = None,
    dtype: str = "bfloat16",
    context: int | None = None,
    tp: int = 1,
) -> ModelReport:
    """Reports on a registered model, a directory, a config.json or a GGUF file, shared by `tp` devices of `memory_bytes`.

    Raises:
        ModelFileError: there is no such model, or its config is unsound or unsupported.
        ValueError: an unknown dtype, a context longer than the model's, or a `tp` among which its heads do not divide.
    """
    path = store.resolve(name_or_path)
    config = read_config(path)
    context = min(config.context_length, 2048) if context is None else context
    if dtype not in memory.DTYPE_BYTES:
        raise ValueError(f"dtype {dtype!r} is not known; known: {', '.join(memory.DTYPE_BYTES)}")
    if not 0 < context <= config.context_length:
        raise ValueError(f"a context of {context} tokens; the model takes 1 to {config.context_length}")
    if tp not in memory.parallel_degrees(config):
        degrees = ", ".join(map(str, memory.parallel_degrees(config)))
        raise ValueError(f"the model's heads do not divide among {tp} devices; possible: {degrees}")
    fit = smallest = None
    if memory_bytes is not None:
        fit = memory.fit(config, memory_bytes, dtype, context, tp)
        smallest = memory.smallest_tensor_parallel(config, memory_bytes, dtype, context)
    return ModelReport(
        name=name_or_path,
        config=config,
        num_parameters=memory.num_parameters(config),
        weight_bytes_by_dtype={each: memory.weight_bytes(config, each) for each in memory.DTYPE_BYTES},
        dtype=dtype,
        context=context,
        kv_bytes_per_token=memory.kv_bytes_per_token(config, dtype, tp),
        memory_bytes=memory_bytes,
        fit=fit,
        smallest_tensor_parallel=smallest,
    )


def stored_bytes(path: Path) -> int:
    """Bytes that a directory's or a GGUF file's weights take as they are stored. Raises `ModelFileError`."""
    if path.is_dir():
        return sum(file.stat().st_size for file in hf_model.weight_files(path))
    return gguf_model.read_header(path).weight_bytes


def read_config(path: Path) -> DecoderConfig:
    """The config of a directory, a config.json or a GGUF file. Raises `ModelFileError`."""
    if path.name == hf_model.CONFIG:
        return hf_model.read_config(path.parent)
    if path.is_dir():
        return hf_model.read_config(path)
    if is_gguf(path):
        return gguf_model.read_header(path).config
    if path.suffix == ".json":
        return read_hf_config(read_object(path))
    raise ModelNotFound(f"{path.name} is neither a model's directory, nor a config.json, nor a GGUF file")
