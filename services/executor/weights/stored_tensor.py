"""A stored tensor: the bytes that a model file has of it, not converted."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A matrix, or a vector as one row. `kind` is GGUF's name of the storage type."""

    kind: str
    columns: int
    data: npt.NDArray[np.uint8]
    """[rows, bytes of a row]."""

    @property
    def rows(self) -> int:
        return len(self.data)


class StoredWeights(Protocol):
    """All tensors of a model, by canonical name (see `layout`)."""

    def tensor(self, canonical: str) -> StoredTensor: ...

    def has(self, canonical: str) -> bool: ...
