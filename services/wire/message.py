"""A message: a frozen, slotted dataclass that checks itself when made; numeric columns are read-only numpy arrays."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

Int32Column = npt.NDArray[np.int32]
Float32Column = npt.NDArray[np.float32]

INT32 = np.dtype("<i4")
FLOAT32 = np.dtype("<f4")

T = TypeVar("T")


class InvalidMessage(ValueError):
    """A message that breaks its own contract: a bug in its sender, or a hostile peer. The whole message is refused."""


class Message:
    """Base of every message. Equality compares columns by value."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            _same(getattr(self, field.name), getattr(other, field.name))
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
def message(cls: type[T]) -> type[T]:
    """Makes `cls` a message: keyword-only, immutable, slotted."""
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)(cls)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and np.array_equal(left, right, equal_nan=left.dtype == FLOAT32)
    return bool(left == right)


def int32_column(values: Sequence[int] | npt.NDArray[Any] = ()) -> Int32Column:
    """A read-only int32 column of `values`."""
    column = np.array(values, INT32)
    column.flags.writeable = False
    return column


def float32_column(values: Sequence[float] | npt.NDArray[Any] = ()) -> Float32Column:
    """A read-only float32 column of `values`."""
    column = np.array(values, FLOAT32)
    column.flags.writeable = False
    return column


_NO_INTS = int32_column()
_NO_FLOATS = float32_column()


def no_ints() -> Int32Column:
    """The empty int32 column."""
    return _NO_INTS


def no_floats() -> Float32Column:
    """The empty float32 column."""
    return _NO_FLOATS


def total(counts: Int32Column) -> int:
    """The sum of a column: numpy takes a microsecond to begin, Python one for a hundred."""
    return sum(counts.tolist()) if counts.size < 100 else int(counts.sum())


def require(condition: bool, why: str) -> None:
    """Raises `InvalidMessage(why)` unless `condition` holds."""
    if not condition:
        raise InvalidMessage(why)
