"""The tensors of safetensors files as they are stored."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from services.executor.models.config import DecoderConfig
from services.executor.weights.hf_weights import SafetensorsFiles
from services.executor.weights.stored_tensor import StoredTensor

_KINDS = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class HfStoredWeights:
    """`StoredWeights` of a directory's files, which stay open until the end of a `with`."""

    def __init__(self, files: Sequence[Path], config: DecoderConfig) -> None:
        """Raises `MalformedModel` or `UnsupportedModel` for what `hf_weights.load_tensors` refuses."""
        self._files = SafetensorsFiles(files, config)

    def __enter__(self) -> Self:
        self._files.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._files.__exit__(kind, error, at)

    def tensor(self, canonical: str) -> StoredTensor:
        tensor = self._files.tensor(canonical)
        columns = tensor.shape[-1]
        matrix = tensor.reshape(-1, columns).contiguous()
        # Always a copy: the library may hand out memory that is the file itself, and files change under running servers.
        data = matrix.view(torch.uint8).numpy().copy()
        return StoredTensor(_KINDS[tensor.dtype], columns, data)

    def has(self, canonical: str) -> bool:
        return self._files.has(canonical)
