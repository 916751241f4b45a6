"""The compiled kernels as Python sees them: the shared library, its level and threads, and packed linears."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from kernels.cpu import build
from kernels.cpu.build import LIBRARY

Floats = npt.NDArray[np.float32]
DType = Literal["auto", "float32", "bfloat16"]

KINDS = {"F32": 0, "BF16": 1, "F16": 2, "Q8_0": 3, "Q4_0": 4, "Q4_1": 5, "Q4_K": 6, "Q6_K": 7}
"""By GGUF's names, as in ops.h."""
_PACKINGS: dict[DType, int] = {"auto": 0, "float32": 1, "bfloat16": 2}

_REFUSED, _NO_MEMORY, _NOT_FINITE, _HAS_BIAS = 1, 2, 3, 4  # Result in guard.h

_POINTER, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_SIGNATURES = {
    "headway_version": (ctypes.c_char_p, []),
    "headway_level": (ctypes.c_char_p, []),
    "headway_use_level": (ctypes.c_int, [ctypes.c_char_p]),
    "headway_threads": (_I32, []),
    "headway_set_threads": (None, [_I32]),
    "headway_populate": (ctypes.c_int, [_POINTER, _I64]),
    "headway_linear_create": (_POINTER, [_I64]),
    "headway_linear_free": (None, [_POINTER]),
    "headway_linear_add": (ctypes.c_int, [_POINTER, _I32, _I32, _I64, _POINTER, _I64]),
    "headway_linear_set_bias": (ctypes.c_int, [_POINTER, _POINTER, _I64]),
    "headway_linear_outputs": (_I64, [_POINTER]),
    "headway_linear_packed_bytes": (_I64, [_POINTER]),
    "headway_linear_run": (ctypes.c_int, [_POINTER, _POINTER, _I64, _POINTER]),
    "headway_linear_unpack": (ctypes.c_int, [_POINTER, _POINTER, _I64, _POINTER]),
    "headway_draw": (ctypes.c_int, [_POINTER, _I64, _POINTER, _POINTER, _I64, _I32, _POINTER]),
}


class LibraryMissing(Exception):
    """The compiled kernels cannot be used here; the text says why and what to do."""


class NotFinite(ValueError):
    """Weights hold an infinity, or what is not a number."""


class CpuLibrary:
    """The library, loaded. One for the process: see `load`."""

    def __init__(self, handle: ctypes.CDLL) -> None:
        self.handle = handle

    @property
    def version(self) -> str:
        """Of sources and compiler: what the results' bits depend on besides the level."""
        return str(self.handle.headway_version().decode())

    @property
    def level(self) -> str:
        """The instruction set in use: "avx512", "avx2" or "portable"."""
        return str(self.handle.headway_level().decode())

    def use_level(self, name: str) -> None:
        """Makes it another; not while anything is computed. Raises `ValueError` where it is not here."""
        if self.handle.headway_use_level(name.encode()):
            raise ValueError(f"this machine, or this build, has no level {name!r}")

    @property
    def threads(self) -> int:
        """How many threads compute, the caller's among them."""
        return int(self.handle.headway_threads())

    def set_threads(self, count: int) -> None:
        self.handle.headway_set_threads(count)

    def populate(self, array: npt.NDArray[np.generic]) -> bool:
        """Has the system give memory for a new array now, not as it is first written; false where it cannot.

        For a thread that does nothing else: it goes behind all others for good.
        """
        return bool(self.handle.headway_populate(array.ctypes.data, array.nbytes) == 0)

    def linear(self, inputs: int) -> "Linear":
        """A linear that has no outputs yet."""
        return Linear(self, inputs)


class Linear:
    """Packed weights [outputs, inputs] of one projection, in segments whose kinds may differ."""

    def __init__(self, library: CpuLibrary, inputs: int) -> None:
        self._calls = library.handle
        self.inputs = inputs
        self.handle = ctypes.c_void_p(self._calls.headway_linear_create(inputs))
        if not self.handle:
            raise ValueError(f"a linear cannot have {inputs} inputs")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._calls.headway_linear_free(self.handle)

    @property
    def outputs(self) -> int:
        return int(self._calls.headway_linear_outputs(self.handle))

    @property
    def packed_bytes(self) -> int:
        return int(self._calls.headway_linear_packed_bytes(self.handle))

    def add_segment(self, kind: str, outputs: int, raw: npt.NDArray[np.generic], dtype: DType = "auto") -> None:
        """Appends outputs.

        Args:
            kind: of `KINDS`.
            outputs: how many.
            raw: the bytes of a GGUF tensor [outputs, inputs] of that kind; they are copied.
            dtype: "auto" keeps the kind, and with it every value; the others convert it.

        Raises:
            ValueError: the kind is unknown, or there is no such tensor: its bytes do not fit, or the inputs are not a
                multiple of 32 (of 256 for Q4_K and Q6_K); or a bias was set, which nothing can follow.
            NotFinite: a weight, or a scale of weights, is not finite, or is too large for `dtype`.
        """
        if kind not in KINDS:
            raise ValueError(f"the kernels know no tensor type {kind!r}: they know {', '.join(KINDS)}")
        data = np.ascontiguousarray(raw)
        code = self._calls.headway_linear_add(
            self.handle, KINDS[kind], _PACKINGS[dtype], outputs, data.ctypes.data, data.nbytes
        )
        if code == _NOT_FINITE:
            kept_as = "" if dtype == "auto" else f" in {dtype}"
            raise NotFinite(f"a {kind} tensor holds numbers that are not finite{kept_as}")
        if code == _HAS_BIAS:
            raise ValueError("outputs cannot be appended after the bias")
        check(code, f"{data.nbytes} bytes are no {kind} tensor of {outputs} x {self.inputs}")

    def set_bias(self, bias: Floats) -> None:
        """Adds bias [outputs] to every row; no segment can follow."""
        values = np.ascontiguousarray(bias, np.float32)
        code = self._calls.headway_linear_set_bias(self.handle, values.ctypes.data, values.size)
        check(code, f"a bias of {values.size} does not fit {self.outputs} outputs")

    def run(self, x: Floats, out: Floats | None = None) -> Floats:
        """[rows, outputs] of x [rows, inputs], in `out` where it is given."""
        rows = np.ascontiguousarray(x, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.inputs:
            raise ValueError(f"{rows.shape} is not [rows, {self.inputs}]")
        if out is None:
            out = np.empty((len(rows), self.outputs), np.float32)
        if out.shape != (len(rows), self.outputs) or out.dtype != np.float32 or not out.flags.c_contiguous:
            raise ValueError(f"the output must be contiguous float32 [{len(rows)}, {self.outputs}]")
        code = self._calls.headway_linear_run(self.handle, rows.ctypes.data, len(rows), out.ctypes.data)
        check(code, "a linear without outputs was run")
        return out

    def bound(self, x: Floats, out: Floats) -> Callable[[], int]:
        """A call of `run` on these arrays without its checks, which take longer than a small product; 0 is success."""
        self.run(x, out)
        assert x.dtype == np.float32
        assert x.flags.c_contiguous
        return partial(self._calls.headway_linear_run, self.handle, x.ctypes.data, len(x), out.ctypes.data)

    def unpack(self, ids: npt.NDArray[np.int32]) -> Floats:
        """The weights' rows [len(ids), inputs] as floats."""
        rows = np.ascontiguousarray(ids, np.int32)
        out = np.empty((len(rows), self.inputs), np.float32)
        code = self._calls.headway_linear_unpack(self.handle, rows.ctypes.data, len(rows), out.ctypes.data)
        check(code, f"an id is not between 0 and {self.outputs - 1}")
        return out


def check(code: int, refusal: str = "") -> None:
    """Raises what a C function's result says: `MemoryError`, or `ValueError` with this text where it refused."""
    if code == _NO_MEMORY:
        raise MemoryError
    if code == _REFUSED:
        raise ValueError(refusal)
    assert code == 0


@cache
def load() -> CpuLibrary:
    """The library.

    Raises:
        LibraryMissing: it was not built, or not from these sources, or not for this machine, or HEADWAY_CPU_LEVEL names
            no level of this machine.
    """
    compile_it = f"run {sys.executable} -m kernels.cpu.build"
    if not LIBRARY.exists():
        raise LibraryMissing(f"they were not built; install a C++ compiler, then {compile_it}")
    try:
        handle = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise LibraryMissing(
            f"they do not load on this machine ({error}); delete that file and {compile_it}"
        ) from error
    if not _is_of_these_sources(handle):
        raise LibraryMissing(f"they are of other sources; {compile_it}, with a C++ compiler installed")
    if handle.headway_level() is None:
        raise LibraryMissing("HEADWAY_CPU_LEVEL must name one of avx512, avx2 and portable that this machine has")
    return CpuLibrary(handle)


def _is_of_these_sources(handle: ctypes.CDLL) -> bool:
    """Declares the functions too. A structure that has changed since would be read and written at wrong places."""
    try:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(handle, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError:
        return False
    return not build.has_sources() or CpuLibrary(handle).version.split()[0] == build.version()


def why_missing() -> str:
    """Why the compiled kernels cannot be used; empty where they can."""
    try:
        load()
    except LibraryMissing as missing:
        return str(missing)
    return ""
