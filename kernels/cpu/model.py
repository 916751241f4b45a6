"""A decoder on the compiled kernels: packed weights, a paged KV cache, and a forward pass in one call a step."""

import ctypes
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from kernels.cpu.library import CpuLibrary, Linear, check

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

SEQUENCE = np.dtype(
    [("first_row", np.int32), ("count", np.int32), ("start", np.int32), ("", np.int32), ("blocks", np.uint64)]
)
"""A sequence's part of a step: `count` rows from `first_row` on are its tokens from position `start` on; `blocks` is the
address of its block table, int32, long enough for all of them."""

BLOCK_SIZE = 16


class LinearRole(IntEnum):
    QKV = 0
    O = 1  # noqa: E741 (the field's name of the output projection)
    GATE_UP = 2
    DOWN = 3
    EMBEDDING = 4
    LM_HEAD = 5


class VectorRole(IntEnum):
    ATTN_NORM = 0
    MLP_NORM = 1
    Q_NORM = 2
    K_NORM = 3
    FINAL_NORM = 4
    COS = 5
    SIN = 6


_CONFIG_INTS = (
    *("num_layers", "hidden", "inner", "heads", "kv_heads", "head_dim"),
    *("vocab", "context", "kv_is_bf16"),
)


class _Config(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int32) for name in _CONFIG_INTS), ("norm_eps", ctypes.c_float)]


class _Batch(ctypes.Structure):
    _fields_ = [
        ("num_rows", ctypes.c_int32),
        ("num_sequences", ctypes.c_int32),
        ("num_wanted", ctypes.c_int32),
        ("token_ids", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("sequences", ctypes.c_void_p),
        ("wanted_rows", ctypes.c_void_p),
    ]


class _KvCache(ctypes.Structure):
    _fields_ = [("keys", ctypes.c_void_p), ("values", ctypes.c_void_p), ("layer_bytes", ctypes.c_int64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The numbers that describe a decoder to the kernels."""

    num_layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int
    norm_eps: float
    kv_is_bf16: bool

    @property
    def block_bytes(self) -> int:
        """Of the keys, or the values, of one block in one layer."""
        return self.kv_heads * self.head_dim * BLOCK_SIZE * (2 if self.kv_is_bf16 else 4)


class KvCache:
    """Keys and values of all layers, in blocks of `BLOCK_SIZE` tokens; see ops.h for the layout inside a block."""

    def __init__(self, shape: ModelShape, num_blocks: int) -> None:
        layer_bytes = num_blocks * shape.block_bytes
        # Not zeroed: the system gives memory as blocks are first used, or as it is asked to.
        self.keys = np.empty(shape.num_layers * layer_bytes, np.uint8)
        self.values = np.empty(shape.num_layers * layer_bytes, np.uint8)
        self.address = _KvCache(self.keys.ctypes.data, self.values.ctypes.data, layer_bytes)


class Model:
    """A model to which each linear and each vector is given once, in any order, before the first step.

    Whatever it does may raise `MemoryError`, and then has changed nothing but cache that the step was to write.
    """

    def __init__(self, library: CpuLibrary, shape: ModelShape) -> None:
        self.shape = shape
        self._calls = _declare(library.handle)
        config = _Config(**{name: getattr(shape, name) for name in _CONFIG_INTS}, norm_eps=shape.norm_eps)
        self._model = ctypes.c_void_p(self._calls.headway_model_create(ctypes.byref(config)))
        if not self._model:
            raise MemoryError
        self._linears: list[Linear] = []
        self._logits = np.empty((0, shape.vocab), np.float32)

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._calls.headway_model_free(self._model)

    def set_linear(self, role: LinearRole, linear: Linear, layer: int = -1) -> None:
        """Raises `ValueError` where its numbers of inputs and outputs are not those of the role."""
        code = self._calls.headway_model_set_linear(self._model, layer, role, linear.handle)
        check(code, f"the linear {role.name} of layer {layer} does not fit the model")
        self._linears.append(linear)  # it lives as long as the model

    def set_vector(self, role: VectorRole, values: Floats, layer: int = -1) -> None:
        """Raises `ValueError` where its length is not that of the role. COS and SIN: [context, head_dim / 2]."""
        flat = np.ascontiguousarray(values, np.float32).reshape(-1)
        code = self._calls.headway_model_set_vector(self._model, layer, role, flat.ctypes.data, flat.size)
        check(code, f"the vector {role.name} of layer {layer} does not fit the model")

    @property
    def is_complete(self) -> bool:
        """Whether all parts have been given."""
        return bool(self._calls.headway_model_is_complete(self._model))

    def forward(
        self,
        token_ids: Ints,
        positions: Ints,
        sequences: npt.NDArray[np.void],
        wanted: Ints,
        cache: KvCache,
        *,
        alone: bool = False,
    ) -> Floats:
        """Computes a step.

        Args:
            token_ids: [rows].
            positions: [rows].
            sequences: [sequences] of `SEQUENCE`, whose rows make up the step.
            wanted: rows whose hidden state is asked for, rising.
            cache: takes keys and values of all rows.
            alone: the calling thread computes it without the others; that changes no bit.

        Returns:
            [wanted, hidden], after the last norm.
        """
        assert self.is_complete
        assert sequences.dtype == SEQUENCE
        hidden = np.empty((len(wanted), self.shape.hidden), np.float32)
        batch = _Batch(
            len(token_ids),
            len(sequences),
            len(wanted),
            token_ids.ctypes.data,
            positions.ctypes.data,
            sequences.ctypes.data,
            wanted.ctypes.data,
        )
        arguments = ctypes.byref(batch), ctypes.byref(cache.address), hidden.ctypes.data, alone
        check(self._calls.headway_model_forward(self._model, *arguments))
        return hidden

    def logits(self, hidden: Floats, *, alone: bool = False) -> Floats:
        """[rows, vocab] of [rows, hidden]; the memory is reused by the next call."""
        rows = len(hidden)
        if rows > len(self._logits):
            self._logits = np.empty((rows, self.shape.vocab), np.float32)
        contiguous = np.ascontiguousarray(hidden, np.float32)
        arguments = contiguous.ctypes.data, rows, self._logits.ctypes.data, alone
        check(self._calls.headway_model_logits(self._model, *arguments))
        return self._logits[:rows]

    def best(self, logits: Floats, rows: Ints) -> Ints:
        """Of some rows of `logits`, the id of the largest, of equals the smallest; -1 where one is not finite."""
        assert rows.dtype == np.int32
        assert len(rows) == 0 or 0 <= rows.min() <= rows.max() < len(logits)
        logits, rows = np.ascontiguousarray(logits), np.ascontiguousarray(rows)
        best = np.empty(len(rows), np.int32)
        width = logits.shape[1]
        check(self._calls.headway_argmax(logits.ctypes.data, width, rows.ctypes.data, len(rows), best.ctypes.data))
        return best


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """The types of the functions in model_api.cpp."""
    pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    signatures = {
        "headway_model_create": (pointer, [pointer]),
        "headway_model_free": (None, [pointer]),
        "headway_model_set_linear": (ctypes.c_int, [pointer, i32, i32, pointer]),
        "headway_model_set_vector": (ctypes.c_int, [pointer, i32, i32, pointer, i64]),
        "headway_model_is_complete": (ctypes.c_int, [pointer]),
        "headway_model_forward": (ctypes.c_int, [pointer, pointer, pointer, pointer, i32]),
        "headway_model_logits": (ctypes.c_int, [pointer, pointer, i64, pointer, i32]),
        "headway_argmax": (ctypes.c_int, [pointer, i64, pointer, i64, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
