"""What a GGUF file says besides its weights: config, tokenizer, template. Needs neither torch nor numpy."""

import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from services.executor.models.config import DecoderConfig
from services.executor.models.gguf_config import read_gguf_config
from services.executor.weights import layout
from services.executor.weights.errors import MalformedModel, ModelNotFound
from services.executor.weights.fields import Fields
from services.executor.weights.gguf_file import GgufFile

ROPE_DIVISORS = "rope_freqs.weight"


@dataclass(frozen=True, slots=True)
class Header:
    """What is to be known of a file before it is served."""

    config: DecoderConfig
    weight_bytes: int  # of all tensors, as they are stored


def read_header(path: Path) -> Header:
    """The header of the GGUF file at `path`; read once while the file stays as it is."""
    try:
        stat = path.stat()
    except OSError as error:
        raise ModelNotFound(f"cannot open the GGUF file {path.name}: {error.strerror}") from error
    return _read_header(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _read_header(path: Path, mtime_ns: int, size: int) -> Header:  # noqa: ARG001 (they tell files apart)
    with GgufFile(path) as gguf:
        return Header(config_of(gguf), sum(tensor.num_bytes for tensor in gguf.tensors.values()))


def config_of(gguf: GgufFile) -> DecoderConfig:
    """The config in the file's header."""
    return read_gguf_config(gguf.metadata, gguf.tensors, _rope_divisors(gguf))


def chat_template_of(gguf: GgufFile) -> str:
    """The file's chat template; empty where it has none."""
    return Fields(gguf.metadata, "GGUF").text("tokenizer.chat_template", "")


def check_tensors(gguf: GgufFile, config: DecoderConfig) -> None:
    """Refuses a file whose table of tensors is not that of its config."""
    shapes = {layout.gguf_name(name): shape for name, shape in layout.expected_shapes(config).items()}
    layout.check_names(shapes, gguf.tensors.keys() - {ROPE_DIVISORS}, "GGUF: the file")
    for name, shape in shapes.items():
        layout.check_shape(name, shape, gguf.tensors[name].shape, "GGUF")


def _rope_divisors(gguf: GgufFile) -> tuple[float, ...]:
    """The values of rope_freqs, through which converters write llama3 scaling; empty where the file has none."""
    tensor = gguf.tensors.get(ROPE_DIVISORS)
    if tensor is None:
        return ()
    if tensor.storage.name != "F32" or len(tensor.shape) != 1 or tensor.shape[0] > 1024:
        raise MalformedModel(f"GGUF: {ROPE_DIVISORS} is not a short vector of F32 numbers")
    buffer = bytearray(tensor.num_bytes)
    gguf.read_into(tensor, 0, buffer)
    divisors = struct.unpack(f"<{tensor.shape[0]}f", buffer)
    if not all(math.isfinite(divisor) and divisor > 0 for divisor in divisors):
        raise MalformedModel(f"GGUF: {ROPE_DIVISORS} holds numbers that are not positive and finite")
    return divisors
