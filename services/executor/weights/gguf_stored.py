"""The tensors of a GGUF file as they are stored. Needs neither torch nor the library that dequantizes."""

import math

import numpy as np

from services.executor.models.config import DecoderConfig
from services.executor.weights import layout
from services.executor.weights.gguf_file import GgufFile
from services.executor.weights.gguf_model import check_tensors
from services.executor.weights.stored_tensor import StoredTensor


class GgufStoredWeights:
    """`StoredWeights` of an open file; read when they are asked for."""

    def __init__(self, gguf: GgufFile, config: DecoderConfig) -> None:
        """Raises `MalformedModel` where tensors are missing, too many, or of a wrong shape."""
        check_tensors(gguf, config)
        self._gguf = gguf
        self._config = config
        self._names = layout.expected_shapes(config).keys()

    def tensor(self, canonical: str) -> StoredTensor:
        info = self._gguf.tensors[layout.gguf_name(canonical)]
        rows = math.prod(info.shape[:-1])
        data = np.empty((rows, info.num_bytes // rows), np.uint8)
        self._gguf.read_into(info, 0, data.data)
        if layout.is_interleaved(canonical, self._config):
            # Of a matrix rows change places, of a bias its numbers.
            pairs = data.reshape(-1, self._config.head_dim // 2, 2, info.num_bytes // info.shape[0])
            data = np.ascontiguousarray(pairs.transpose(0, 2, 1, 3)).reshape(data.shape)
        return StoredTensor(info.storage.name, info.shape[-1], data)

    def has(self, canonical: str) -> bool:
        return canonical in self._names
