"""A strict reader of GGUF: every size, count and offset is checked against the file before anything is read or allocated.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A file comes from a stranger; whatever is wrong with
it ends in `ModelFileError`. Needs neither torch nor numpy.
"""

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from services.executor.weights.errors import MalformedModel, ModelNotFound, UnsupportedModel

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_NAME_BYTES = 1 << 10
MAX_STRING_BYTES = 1 << 20
MAX_METADATA_BYTES = 1 << 28
MAX_ARRAY_ITEMS = 1 << 22  # of all arrays together: the largest vocabularies have 2**18 tokens and 2**19 merges
MAX_DIMENSIONS = 4
MAX_ELEMENTS = 1 << 44
ALIGNMENTS = tuple(1 << power for power in range(3, 17))
DEFAULT_ALIGNMENT = 32

_NUMBERS = {code: struct.Struct("<" + code) for code in "IQ"}
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING = 8
_ARRAY = 9


@dataclass(frozen=True, slots=True)
class StorageType:
    """How a tensor's elements are stored: blocks of `block_elements` in `block_bytes`."""

    name: str
    block_elements: int
    block_bytes: int


STORAGE_TYPES = {
    0: StorageType("F32", 1, 4),
    1: StorageType("F16", 1, 2),
    2: StorageType("Q4_0", 32, 18),
    3: StorageType("Q4_1", 32, 20),
    8: StorageType("Q8_0", 32, 34),
    12: StorageType("Q4_K", 256, 144),
    14: StorageType("Q6_K", 256, 210),
    30: StorageType("BF16", 1, 2),
}
_OTHER_TYPES = {
    6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 13: "Q5_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS",
    18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32",
    27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies. `shape` is row-major, as torch has it: [out, in] for a linear weight."""

    name: str
    shape: tuple[int, ...]
    storage: StorageType
    offset: int  # from the file's start
    num_bytes: int


class GgufFile:
    """An open GGUF file: its metadata, its table of tensors, and reads of their bytes."""

    def __init__(self, path: Path) -> None:
        """Opens and checks `path`; reads no tensor.

        Raises:
            ModelNotFound: there is no such file, or it cannot be read.
            MalformedModel: the file breaks the format.
            UnsupportedModel: a version, byte order or tensor type that is not supported.
        """
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ModelNotFound(f"cannot open the GGUF file {path.name}: {error.strerror}") from error
        try:
            scan = _Scan(self._file, path.stat().st_size)
            self.metadata, self.tensors = scan.run()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def read_into(self, tensor: TensorInfo, start: int, buffer: bytearray | memoryview) -> None:
        """Fills `buffer` with the bytes of a tensor of this file from `start` on."""
        view = memoryview(buffer).cast("B")
        if not 0 <= start <= start + len(view) <= tensor.num_bytes:
            raise IndexError(f"bytes {start} to {start + len(view)} are outside {tensor.name}")
        self._file.seek(tensor.offset + start)
        if self._file.readinto(view) != len(view):
            raise MalformedModel("GGUF: the file became shorter while it was read")


def is_gguf(path: Path) -> bool:
    """Whether `path` is a file that begins like GGUF or is named so."""
    if not path.is_file():
        return False
    if path.suffix == ".gguf":
        return True
    with path.open("rb") as file:
        return file.read(4) == MAGIC


class _Scan:
    """One pass over the header. Nothing is read before it is known to fit in what is left of the file."""

    def __init__(self, file: BufferedReader, size: int) -> None:
        self._file = file
        self._size = size
        self._at = 0
        self._array_items = 0

    def run(self) -> tuple[dict[str, Any], dict[str, TensorInfo]]:
        if self._take(4) != MAGIC:
            raise MalformedModel("GGUF: the file does not begin with the letters GGUF; it is some other format")
        version = self._number("I")
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            what = "big-endian byte order" if swapped in VERSIONS else f"version {version}"
            raise UnsupportedModel(f"GGUF: {what} is not supported; supported: versions 2 and 3, little-endian")
        num_tensors = self._count("tensors", MAX_TENSORS)
        num_keys = self._count("metadata keys", MAX_KEYS)
        metadata: dict[str, Any] = {}
        for _ in range(num_keys):
            key = self._string(MAX_NAME_BYTES)
            if key in metadata:
                raise MalformedModel(f"GGUF: the metadata key {_shown(key)} occurs twice")
            metadata[key] = self._value(self._number("I"), key)
        headers = [self._tensor_header() for _ in range(num_tensors)]
        return metadata, self._place(headers, _alignment(metadata))

    def _take(self, num_bytes: int) -> bytes:
        end = self._at + num_bytes
        if end > self._size:
            raise MalformedModel("GGUF: the file ends inside its header; it was cut off, or its counts are wrong")
        if end > MAX_METADATA_BYTES:
            raise MalformedModel(f"GGUF: the header is longer than {MAX_METADATA_BYTES} bytes")
        data = self._file.read(num_bytes)
        if len(data) != num_bytes:
            raise MalformedModel("GGUF: the file became shorter while it was read")
        self._at = end
        return data

    def _number(self, code: str) -> Any:
        number = _NUMBERS[code]
        return number.unpack(self._take(number.size))[0]

    def _count(self, what: str, most: int) -> int:
        count: int = self._number("Q")
        if count > most:
            raise MalformedModel(f"GGUF: the header promises {count} {what}; at most {most} are allowed")
        return count

    def _string(self, most: int) -> str:
        length: int = self._number("Q")
        if length > most:
            raise MalformedModel(f"GGUF: a string of {length} bytes; at most {most} are allowed here")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedModel("GGUF: a string is not valid UTF-8") from error

    def _value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self._string(MAX_STRING_BYTES)
        if kind == _ARRAY:
            return self._array(key)
        return self._scalars(kind, 1, key)[0]

    def _array(self, key: str) -> Any:
        kind, count = self._number("I"), self._number("Q")
        self._array_items += count
        if self._array_items > MAX_ARRAY_ITEMS:
            raise MalformedModel(f"GGUF: the arrays up to {_shown(key)} have more than {MAX_ARRAY_ITEMS} items")
        if kind == _STRING:
            return [self._string(MAX_STRING_BYTES) for _ in range(count)]
        return list(self._scalars(kind, count, key))

    def _scalars(self, kind: int, count: int, key: str) -> tuple[Any, ...]:
        code = _SCALARS.get(kind)
        if code is None:
            raise MalformedModel(f"GGUF: {_shown(key)} has the unknown value type {kind}")
        data = self._take(count * struct.calcsize("<" + code))
        if code == "?" and data.strip(b"\0\1"):
            raise MalformedModel(f"GGUF: {_shown(key)} holds a boolean that is neither 0 nor 1")
        return struct.unpack(f"<{count}{code}", data)

    def _tensor_header(self) -> TensorInfo:
        """A tensor as the table has it: `offset` still counts from the start of the data."""
        name = self._string(MAX_NAME_BYTES)
        num_dimensions = self._number("I")
        if not 1 <= num_dimensions <= MAX_DIMENSIONS:
            raise MalformedModel(f"GGUF: tensor {_shown(name)} has {num_dimensions} dimensions; 1 to 4 are allowed")
        sizes = struct.unpack(f"<{num_dimensions}Q", self._take(8 * num_dimensions))
        storage = _storage(name, self._number("I"))
        offset = self._number("Q")
        elements = math.prod(sizes)
        if not 0 < elements <= MAX_ELEMENTS or sizes[0] % storage.block_elements:
            raise MalformedModel(f"GGUF: tensor {_shown(name)} has the impossible shape {sizes} for {storage.name}")
        num_bytes = elements // storage.block_elements * storage.block_bytes
        return TensorInfo(name, tuple(reversed(sizes)), storage, offset, num_bytes)

    def _place(self, headers: Iterable[TensorInfo], alignment: int) -> dict[str, TensorInfo]:
        data_start = -(-self._at // alignment) * alignment
        tensors: dict[str, TensorInfo] = {}
        for header in headers:
            if header.name in tensors:
                raise MalformedModel(f"GGUF: the tensor {_shown(header.name)} occurs twice")
            start = data_start + header.offset
            if header.offset % alignment:
                raise MalformedModel(f"GGUF: tensor {_shown(header.name)} is not aligned to {alignment} bytes")
            if start + header.num_bytes > self._size:
                raise MalformedModel(
                    f"GGUF: tensor {_shown(header.name)} ends behind the end of the file; the file was cut off, or its "
                    "table is wrong: fetch it again"
                )
            tensors[header.name] = TensorInfo(header.name, header.shape, header.storage, start, header.num_bytes)
        _refuse_overlap(tensors.values())
        return tensors


def _storage(name: str, kind: int) -> StorageType:
    storage = STORAGE_TYPES.get(kind)
    if storage is not None:
        return storage
    supported = ", ".join(known.name for known in STORAGE_TYPES.values())
    if kind in _OTHER_TYPES:
        raise UnsupportedModel(
            f"GGUF: tensor {_shown(name)} is stored as {_OTHER_TYPES[kind]}; supported types: {supported}"
        )
    raise MalformedModel(f"GGUF: tensor {_shown(name)} has the unknown type {kind}; supported types: {supported}")


def _alignment(metadata: dict[str, Any]) -> int:
    alignment: object = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment not in ALIGNMENTS:
        raise MalformedModel(f"GGUF: the alignment {_shown(alignment)} is not a power of two from 8 to 65536")
    return alignment


def _refuse_overlap(tensors: Iterable[TensorInfo]) -> None:
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda each: each.offset):
        if tensor.offset < end:
            raise MalformedModel(f"GGUF: the tensors {_shown(before)} and {_shown(tensor.name)} overlap")
        end, before = tensor.offset + tensor.num_bytes, tensor.name


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
