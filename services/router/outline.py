"""The outline of a message: which of its fields take how many bytes, found without parsing what is in them.

Parsing costs far more than sending: a few megabytes of empty submessages hold the whole process for a tenth of a second.
An outline reads a bounded number of field headers and skips what they announce.
"""

from contextlib import suppress

from google.protobuf.message import Message as Proto

_MAX_FIELDS = 1024
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10


def largest_field(kind: type[Proto], data: bytes) -> str:
    """The name of the field, of those the message begins with, that takes most bytes; empty where none is known."""
    sizes: dict[int, int] = {}
    # Malformed from some place on: what came before still tells what the message is full of.
    with suppress(IndexError, ValueError):
        _add_sizes(data, sizes)
    names = kind.DESCRIPTOR.fields_by_number
    largest = max((number for number in sizes if number in names), key=sizes.__getitem__, default=None)
    return "" if largest is None else names[largest].name


def _add_sizes(data: bytes, sizes: dict[int, int]) -> None:
    """Raises IndexError or ValueError where the bytes are no message."""
    at = 0
    for _ in range(_MAX_FIELDS):
        if at >= len(data):
            return
        start = at
        tag, at = _varint(data, at)
        wire_type = tag & 7
        if wire_type == _VARINT:
            _, at = _varint(data, at)
        elif wire_type == _LENGTH_DELIMITED:
            length, at = _varint(data, at)
            at += length
        elif wire_type in _SIZES:
            at += _SIZES[wire_type]
        else:
            raise ValueError("a group, which no message of ours has")
        sizes[tag >> 3] = sizes.get(tag >> 3, 0) + at - start


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")
