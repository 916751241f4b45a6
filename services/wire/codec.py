"""The one codec: a message of `services.wire` to protobuf bytes and back.

A message class is bound to the protobuf message of the same name; fields are matched by name, a `body` field to the
`body` oneof by type. Bytes from a peer are data from a stranger: whatever is wrong with them is `InvalidMessage`.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto
from headway.internal.v1 import execution_pb2, scheduling_pb2

from services.wire import event_log, execution, scheduling
from services.wire.message import FLOAT32, INT32, InvalidMessage, Message

M = TypeVar("M", bound=Message)
Put = Callable[[Any, Any], None]  # (value, protobuf message): writes the field
Get = Callable[[Any], Any]  # protobuf message: reads the field

_FIELDS: dict[type[Any], tuple[tuple[str, Put, Get], ...]] = {}


def encode(value: Message) -> bytes:
    """`value` as protobuf bytes; equal messages give equal bytes."""
    return bytes(to_proto(value).SerializeToString(deterministic=True))


def decode(kind: type[M], data: bytes) -> M:
    """The message of class `kind` in `data`. Raises `InvalidMessage` for bytes that are none."""
    proto = _proto_class(kind)()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise InvalidMessage(f"these {len(data)} bytes are no {kind.__name__}") from None
    return from_proto(kind, proto)


def to_proto(value: Message) -> Any:
    """`value` as the generated protobuf message of its name."""
    proto = _proto_class(type(value))()
    _fill(value, proto)
    return proto


def from_proto(kind: type[M], proto: Proto) -> M:
    """The message of class `kind` in a parsed protobuf message. Raises `InvalidMessage`."""
    try:
        return kind(**{name: get(proto) for name, _, get in _fields(kind)})
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidMessage(f"{kind.__name__}: {error}") from None


def _fill(value: Message, proto: Any) -> None:
    for name, put, _ in _fields(type(value)):
        put(getattr(value, name), proto)


def _proto_class(kind: type[Message]) -> Callable[[], Any]:
    proto = getattr(execution_pb2, kind.__name__, None) or getattr(scheduling_pb2, kind.__name__)
    return typing.cast(Callable[[], Any], proto)


def _fields(kind: type[Message]) -> tuple[tuple[str, Put, Get], ...]:
    fields = _FIELDS.get(kind)
    if fields is None:
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
        fields = _FIELDS[kind] = tuple((name, *_field(name, hints[name])) for name in names)
    return fields


def _field(name: str, hint: Any) -> tuple[Put, Get]:
    """How a field of type `hint` is written and read."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        return _column(name, FLOAT32 if np.float32 in typing.get_args(arguments[1]) else INT32)
    if origin is tuple:
        return _repeated(name, arguments[0])
    if origin in (types.UnionType, typing.Union):
        kinds = [argument for argument in arguments if argument is not type(None)]
        return _oneof(name, kinds) if len(kinds) > 1 else _nested(name, kinds[0], optional=True)
    if isinstance(hint, type) and issubclass(hint, Message):
        return _nested(name, hint, optional=False)
    return _scalar(name, hint)


def _scalar(name: str, kind: type[Any]) -> tuple[Put, Get]:
    def put(value: Any, proto: Any) -> None:
        setattr(proto, name, value)

    def get(proto: Any) -> Any:
        value = getattr(proto, name)
        return kind(value) if issubclass(kind, IntEnum) else value

    return put, get


def _column(name: str, dtype: np.dtype[Any]) -> tuple[Put, Get]:
    empty = np.empty(0, dtype)
    empty.flags.writeable = False

    def put(value: Any, proto: Any) -> None:
        if value.size:
            setattr(proto, name, value.astype(dtype, copy=False).tobytes())

    def get(proto: Any) -> Any:
        data = getattr(proto, name)
        return np.frombuffer(data, dtype) if data else empty

    return put, get


def _repeated(name: str, kind: type[Any]) -> tuple[Put, Get]:
    if not issubclass(kind, Message):
        return (lambda value, proto: getattr(proto, name).extend(value)), (lambda proto: tuple(getattr(proto, name)))

    def put(value: Any, proto: Any) -> None:
        rows = getattr(proto, name)
        for item in value:
            _fill(item, rows.add())

    def get(proto: Any) -> Any:
        return tuple(from_proto(kind, row) for row in getattr(proto, name))

    return put, get


def _nested(name: str, kind: type[Message], *, optional: bool) -> tuple[Put, Get]:
    def put(value: Any, proto: Any) -> None:
        if value is not None:
            field = getattr(proto, name)
            field.SetInParent()
            _fill(value, field)

    def get(proto: Any) -> Any:
        if optional and not proto.HasField(name):
            return None
        return from_proto(kind, getattr(proto, name))

    return put, get


def _oneof(name: str, kinds: list[type[Message]]) -> tuple[Put, Get]:
    """The member of the oneof `name` whose protobuf type has the name of the message's class."""
    by_name = {kind.__name__: kind for kind in kinds}

    @cache
    def members(descriptor: Any) -> dict[str, str]:
        return {field.message_type.name: field.name for field in descriptor.oneofs_by_name[name].fields}

    def put(value: Any, proto: Any) -> None:
        field = getattr(proto, members(proto.DESCRIPTOR)[type(value).__name__])
        field.SetInParent()
        _fill(value, field)

    def get(proto: Any) -> Any:
        which = proto.WhichOneof(name)
        if which is None:
            raise InvalidMessage("a frame without a body")
        member = getattr(proto, which)
        return from_proto(by_name[member.DESCRIPTOR.name], member)

    return put, get


def message_classes() -> tuple[type[Message], ...]:
    """Every message of `services.wire`."""
    modules = (execution, scheduling, event_log)
    return tuple(
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Message)
        and kind is not Message
        and kind.__module__ == module.__name__
    )
