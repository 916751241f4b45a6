"""Opens a model: a Hugging Face directory or a GGUF file. Only what asks for torch's tensors imports torch."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from services.executor.weights import gguf_model, gguf_tokenizer, hf_model
from services.executor.weights.digests import known_sha256_of
from services.executor.weights.errors import MalformedModel, ModelNotFound
from services.executor.weights.gguf_file import GgufFile, is_gguf
from services.executor.weights.model_description import ModelDescription
from services.executor.weights.stored_tensor import StoredWeights

if TYPE_CHECKING:
    import torch

    from services.executor.weights.loaded_model import LoadedModel


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model whose files are open: its description, and its tensors as they are stored."""

    description: ModelDescription
    weights: StoredWeights


@contextmanager
def open_model(path: Path, name: str = "") -> Iterator[OpenModel]:
    """The model at `path`; it is served as `name`, or as the file or directory is called.

    Raises:
        ModelFileError: whatever is wrong with the files, in words that say whose fault it is and what to do.
    """
    if _is_directory(path):
        from services.executor.weights.hf_stored import HfStoredWeights

        description, files = _describe_directory(path, name)
        with HfStoredWeights(files, description.config) as weights:
            yield OpenModel(description, weights)
    else:
        from services.executor.weights.gguf_stored import GgufStoredWeights

        with GgufFile(path) as gguf:
            description = _describe_gguf(gguf, path, name)
            yield OpenModel(description, GgufStoredWeights(gguf, description.config))


def load_model(path: Path, dtype: "torch.dtype", name: str = "") -> "LoadedModel":
    """The model at `path` with torch's tensors, all of one dtype.

    Raises:
        ModelFileError: as `open_model`.
    """
    from services.executor.weights import gguf_weights, hf_weights
    from services.executor.weights.loaded_model import LoadedModel

    if _is_directory(path):
        description, files = _describe_directory(path, name)
        tensors = hf_weights.load_tensors(files, description.config, dtype)
    else:
        with GgufFile(path) as gguf:
            description = _describe_gguf(gguf, path, name)
            tensors = gguf_weights.load_tensors(gguf, description.config, dtype)
    known = {field.name: getattr(description, field.name) for field in fields(description)}
    return LoadedModel(tensors=tensors, **known)


def _is_directory(path: Path) -> bool:
    if path.is_dir():
        return True
    if is_gguf(path):
        return False
    what = "is neither a directory nor a GGUF file" if path.exists() else "does not exist"
    raise ModelNotFound(f"the model {path.name} {what}")


def _describe_gguf(gguf: GgufFile, path: Path, name: str) -> ModelDescription:
    config = gguf_model.config_of(gguf)
    tokenizer = gguf_tokenizer.tokenizer_json(gguf.metadata)
    num_tokens = len(gguf.metadata["tokenizer.ggml.tokens"])
    if num_tokens > config.vocab_size:
        raise MalformedModel(f"GGUF: {num_tokens} tokens, but the model knows {config.vocab_size}")
    return ModelDescription(
        config=config,
        name=name or path.name.removesuffix(".gguf"),
        fingerprint=known_sha256_of(path),
        tokenizer_json=tokenizer,
        chat_template=gguf_model.chat_template_of(gguf),
        special_tokens=gguf_tokenizer.special_tokens(gguf.metadata),
    )


def _describe_directory(directory: Path, name: str) -> tuple[ModelDescription, list[Path]]:
    config = hf_model.read_config(directory)
    files = hf_model.weight_files(directory)
    description = ModelDescription(
        config=config,
        tokenizer_json=hf_model.read_tokenizer(directory, config.vocab_size),
        name=name or directory.resolve().name,
        fingerprint=_fingerprint(directory, files),
        chat_template=hf_model.read_template(directory),
        special_tokens=hf_model.read_special_tokens(directory),
    )
    return description, files


def _fingerprint(directory: Path, weights: list[Path]) -> str:
    side = [directory / name for name in hf_model.SIDE_FILES if (directory / name).is_file()]
    lines = [f"{path.name} {known_sha256_of(path)}\n" for path in (*side, *weights)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
