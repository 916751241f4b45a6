"""Loads a model from a Hugging Face directory or a GGUF file."""

import hashlib
from pathlib import Path

import torch

from services.executor.weights import gguf_model, gguf_tokenizer, gguf_weights, hf_model, hf_weights
from services.executor.weights.digests import known_sha256_of
from services.executor.weights.errors import MalformedModel, ModelNotFound
from services.executor.weights.gguf_file import GgufFile, is_gguf
from services.executor.weights.loaded_model import LoadedModel


def load_model(path: Path, dtype: torch.dtype, name: str = "") -> LoadedModel:
    """Loads the model at `path`; it is served as `name`, or as the file or directory is called.

    Raises:
        ModelFileError: whatever is wrong with the files, in words that say whose fault it is and what to do.
    """
    if path.is_dir():
        return _from_directory(path, dtype, name or path.resolve().name)
    if is_gguf(path):
        return _from_gguf(path, dtype, name or path.name.removesuffix(".gguf"))
    what = "is neither a directory nor a GGUF file" if path.exists() else "does not exist"
    raise ModelNotFound(f"the model {path.name} {what}")


def _from_gguf(path: Path, dtype: torch.dtype, name: str) -> LoadedModel:
    with GgufFile(path) as gguf:
        config = gguf_model.config_of(gguf)
        tokenizer = gguf_tokenizer.tokenizer_json(gguf.metadata)
        special = gguf_tokenizer.special_tokens(gguf.metadata)
        num_tokens = len(gguf.metadata["tokenizer.ggml.tokens"])
        if num_tokens > config.vocab_size:
            raise MalformedModel(f"GGUF: {num_tokens} tokens, but the model knows {config.vocab_size}")
        return LoadedModel(
            config=config,
            tensors=gguf_weights.load_tensors(gguf, config, dtype),
            name=name,
            fingerprint=known_sha256_of(path),
            tokenizer_json=tokenizer,
            chat_template=gguf_model.chat_template_of(gguf),
            special_tokens=special,
        )


def _from_directory(directory: Path, dtype: torch.dtype, name: str) -> LoadedModel:
    config = hf_model.read_config(directory)
    files = hf_model.weight_files(directory)
    return LoadedModel(
        config=config,
        tokenizer_json=hf_model.read_tokenizer(directory, config.vocab_size),
        tensors=hf_weights.load_tensors(files, config, dtype),
        name=name,
        fingerprint=_fingerprint(directory, files),
        chat_template=hf_model.read_template(directory),
        special_tokens=hf_model.read_special_tokens(directory),
    )


def _fingerprint(directory: Path, weights: list[Path]) -> str:
    side = [directory / name for name in hf_model.SIDE_FILES if (directory / name).is_file()]
    lines = [f"{path.name} {known_sha256_of(path)}\n" for path in (*side, *weights)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
