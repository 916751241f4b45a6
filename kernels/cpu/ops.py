"""One operation at a time, on any level of this machine: for tests and benchmarks. Serving calls whole steps."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernels.cpu.library import load

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

LEVELS = ("avx512", "avx2", "portable")
BLOCK_SIZE = 16

_POINTER, _I32, _I64, _F32 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float


class Shape(ctypes.Structure):
    """Heads, and the format of the cache."""

    _fields_ = (("heads", _I32), ("kv_heads", _I32), ("head_dim", _I32), ("kv_is_bf16", _I32))
    heads: int
    kv_heads: int
    head_dim: int
    kv_is_bf16: int

    @property
    def is_supported(self) -> bool:
        """Whether `write_kv` and `attention` can work on it."""
        return bool(load().handle.headway_attention_supports(ctypes.byref(self)))


class _KvLayer(ctypes.Structure):
    _fields_ = (("keys", _POINTER), ("values", _POINTER))


class _Sequence(ctypes.Structure):
    _fields_ = (("first_row", _I32), ("count", _I32), ("start", _I32), ("blocks", _POINTER))


class _Table(ctypes.Structure):
    """`Ops` of ops.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("prepare", _POINTER),
        ("linear", _POINTER),
        ("unpack_rows", _POINTER),
        ("rms_norm", ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _F32, _I64, _I64, _POINTER)),
        ("add", ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _I64)),
        ("silu_mul", ctypes.CFUNCTYPE(None, _POINTER, _I64, _I64, _POINTER)),
        ("rope", ctypes.CFUNCTYPE(None, _POINTER, _I32, _I32, _POINTER, _POINTER)),
        ("write_kv", ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _I32, _I32, _POINTER, _POINTER)),
        ("attention", _POINTER),
        ("query_tile", ctypes.CFUNCTYPE(_I32, _POINTER)),
        ("attention_scratch", ctypes.CFUNCTYPE(_I64, _POINTER)),
        ("argmax", ctypes.CFUNCTYPE(None, _POINTER, _I64, _I64, _POINTER)),
        ("draw", _POINTER),
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens of one sequence that a step computes."""

    first_row: int
    count: int
    start: int
    """The position of the first."""
    blocks: Ints
    """The sequence's block table, C-contiguous."""


class KvLayer:
    """One layer's keys and values, in the layout of ops.h."""

    def __init__(self, shape: Shape, num_blocks: int) -> None:
        dtype = np.uint16 if shape.kv_is_bf16 else np.float32
        extent = (num_blocks, shape.kv_heads, BLOCK_SIZE * shape.head_dim)
        self.shape = shape
        self.keys = np.zeros(extent, dtype)
        self.values = np.zeros(extent, dtype)
        self.pointers = _KvLayer(self.keys.ctypes.data, self.values.ctypes.data)

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes


class CpuOps:
    """The operations of one level. Arrays are float32 and C-contiguous; results are new unless said otherwise."""

    def __init__(self, level: str) -> None:
        """Raises `ValueError` where this machine, or this build, has no such level."""
        find = load().handle.headway_ops
        find.restype, find.argtypes = ctypes.POINTER(_Table), [ctypes.c_char_p]
        table = find(level.encode())
        if not table:
            raise ValueError(f"this machine, or this build, has no level {level!r}")
        self._table = table.contents

    def rms_norm(self, x: Floats, weight: Floats, eps: float) -> Floats:
        """Of x [rows, width]."""
        out = np.empty_like(x)
        self._table.rms_norm(_at(x), _at(weight), eps, *x.shape, _at(out))
        return out

    def add(self, x: Floats, y: Floats) -> None:
        """Adds y to x in place."""
        self._table.add(_at(x), _at(y), x.size)

    def silu_mul(self, gate_up: Floats) -> Floats:
        """[rows, inner] of [rows, 2 * inner]."""
        out = np.empty((len(gate_up), gate_up.shape[1] // 2), np.float32)
        self._table.silu_mul(_at(gate_up), *out.shape, _at(out))
        return out

    def rope(self, heads: Floats, cos: Floats, sin: Floats) -> None:
        """Rotates heads [heads, head_dim] of one token in place; cos and sin: [head_dim / 2]."""
        self._table.rope(_at(heads), *heads.shape, _at(cos), _at(sin))

    def argmax(self, rows: Floats) -> Ints:
        """[rows]; -1 where a row holds a value that is not finite."""
        out = np.empty(len(rows), np.int32)
        self._table.argmax(_at(rows), *rows.shape, _at(out))
        return out

    def write_kv(self, kv: KvLayer, kv_rows: Sequence[int], keys: Floats, values: Floats) -> None:
        """Stores keys and values [tokens, kv_heads, head_dim] at block * BLOCK_SIZE + offset."""
        for token, kv_row in enumerate(kv_rows):
            place = divmod(kv_row, BLOCK_SIZE)
            self._table.write_kv(_ref(kv.shape), _ref(kv.pointers), *place, _at(keys[token]), _at(values[token]))

    def query_tile(self, shape: Shape) -> int:
        """Queries that one task of attention takes."""
        return int(self._table.query_tile(_ref(shape)))

    def attention(self, kv: KvLayer, chunks: Sequence[Chunk], queries: Floats, tile: int = 0) -> Floats:
        """Attention of queries [rows, heads, head_dim], `tile` queries a task (0: as many as it should take).

        Rows that no chunk names give zeros.
        """
        out = np.zeros_like(queries)
        self.attention_call(kv, chunks, queries, out, tile)()
        return out

    def attention_call(
        self, kv: KvLayer, chunks: Sequence[Chunk], queries: Floats, out: Floats, tile: int = 0
    ) -> Callable[[], None]:
        """What `attention` does, into `out`, as a call whose every argument is ready: for timing."""
        shape = kv.shape
        sequences = (_Sequence * len(chunks))(
            *(_Sequence(c.first_row, c.count, c.start, _at(c.blocks)) for c in chunks)
        )
        scratch = np.empty(self._table.attention_scratch(_ref(shape)), np.float32)
        arguments = (
            *(_ref(self._table), _ref(shape), _ref(kv.pointers)),
            *(_ref(sequences), len(chunks), tile or self.query_tile(shape)),
            *(_at(queries), shape.heads * shape.head_dim, _at(out), _at(scratch)),
        )
        alive = (kv, chunks, queries, out, sequences, scratch)
        run = load().handle.headway_attention
        run.restype = None
        run.argtypes = [_POINTER, _POINTER, _POINTER, _POINTER, _I32, _I32, _POINTER, _I64, _POINTER, _POINTER]

        def call() -> None:
            assert alive
            run(*arguments)

        return call


def _at(array: npt.NDArray[np.generic]) -> int:
    assert array.flags.c_contiguous
    return array.ctypes.data


def _ref(structure: ctypes.Structure | ctypes.Array[_Sequence]) -> int:
    return ctypes.addressof(structure)
