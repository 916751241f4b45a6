"""The one codec: a message of `services.wire` to protobuf bytes and back.

A message class is bound to the protobuf message of the same name; fields are matched by name, a `body` field to the
`body` oneof by type. Bytes from a peer are data from a stranger: whatever is wrong with them is `InvalidMessage`.
"""

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto
from headway.internal.v1 import execution_pb2, scheduling_pb2

from services.wire import event_log, execution, scheduling
from services.wire.message import FLOAT32, INT32, InvalidMessage, Message, no_floats, no_ints

M = TypeVar("M", bound=Message)
Put = Callable[[Any, Any], None]  # (value, protobuf message): writes the field, or the whole message
Get = Callable[[Any], Any]  # protobuf message: reads the field, or the whole message


@dataclass(frozen=True, slots=True)
class _Coder:
    """How the messages of one class are written and read."""

    proto: Callable[[], Any]
    put: Put
    get: Get


_CODERS: dict[type[Any], _Coder] = {}


def encode(value: Message) -> bytes:
    """`value` as protobuf bytes; equal messages give equal bytes."""
    return bytes(to_proto(value).SerializeToString(deterministic=True))


def decode(kind: type[M], data: bytes) -> M:
    """The message of class `kind` in `data`. Raises `InvalidMessage` for bytes that are none."""
    proto = _coder(kind).proto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise InvalidMessage(f"these {len(data)} bytes are no {kind.__name__}") from None
    return from_proto(kind, proto)


def to_proto(value: Message) -> Any:
    """`value` as the generated protobuf message of its name."""
    coder = _coder(type(value))
    proto = coder.proto()
    coder.put(value, proto)
    return proto


def from_proto(kind: type[M], proto: Proto) -> M:
    """The message of class `kind` in a parsed protobuf message. Raises `InvalidMessage`."""
    try:
        return typing.cast(M, _coder(kind).get(proto))
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidMessage(f"{kind.__name__}: {error}") from None


def _coder(kind: type[Any]) -> _Coder:
    return _CODERS.get(kind) or _CODERS.setdefault(kind, _make_coder(kind))


def _proto_class(kind: type[Message]) -> Any:
    return getattr(execution_pb2, kind.__name__, None) or getattr(scheduling_pb2, kind.__name__)


def _make_coder(kind: type[Message]) -> _Coder:
    """Two functions of straight code, as dataclasses have theirs: a step passes through a dozen of them."""
    proto, hints = _proto_class(kind), typing.get_type_hints(kind)
    known: dict[str, Any] = {"kind": kind}
    puts, gets = ["def put(value, proto):", " pass"], ["def get(proto):", " return kind("]
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        put, get = _field(field.name, hints[field.name], proto.DESCRIPTOR, known)
        puts.append(f" {put}")
        gets.append(f"  {field.name}={get},")
    exec("\n".join([*puts, *gets, " )"]), known)  # noqa: S102 made of the field names of our own classes
    return _Coder(proto, known["put"], known["get"])


def _field(name: str, hint: Any, descriptor: Any, known: dict[str, Any]) -> tuple[str, str]:
    """The statement that writes a field of type `hint`, and the expression that reads it; what they name is `known`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        return _column(name, FLOAT32 if np.float32 in typing.get_args(arguments[1]) else INT32, known)
    if origin is None and not issubclass(hint, Message):
        known[hint.__name__] = hint
        return f"proto.{name} = value.{name}", f"{hint.__name__}(proto.{name})" if issubclass(
            hint, IntEnum
        ) else f"proto.{name}"
    if origin is tuple:
        put, get = _repeated(name, arguments[0])
    elif origin is None:
        put, get = _nested(name, hint, optional=False)
    else:
        kinds = [argument for argument in arguments if argument is not type(None)]
        oneof = len(kinds) > 1
        put, get = _oneof(name, kinds, descriptor) if oneof else _nested(name, kinds[0], optional=True)
    known[f"put_{name}"], known[f"get_{name}"] = put, get
    return f"put_{name}(value.{name}, proto)", f"get_{name}(proto)"


def _column(name: str, dtype: np.dtype[Any], known: dict[str, Any]) -> tuple[str, str]:
    kind = "FLOAT32" if dtype is FLOAT32 else "INT32"
    known |= {"frombuffer": np.frombuffer, kind: dtype, f"NO_{kind}": no_floats() if dtype is FLOAT32 else no_ints()}
    put = f"if value.{name}.size: proto.{name} = value.{name}.astype({kind}, copy=False).tobytes()"
    return put, f"frombuffer(data, {kind}) if (data := proto.{name}) else NO_{kind}"


def _repeated(name: str, kind: type[Any]) -> tuple[Put, Get]:
    if not issubclass(kind, Message):
        return (lambda value, proto: getattr(proto, name).extend(value)), (lambda proto: tuple(getattr(proto, name)))

    def put(value: Any, proto: Any) -> None:
        if value:
            rows, put_row = getattr(proto, name), _coder(kind).put
            for item in value:
                put_row(item, rows.add())

    def get(proto: Any) -> Any:
        return tuple(from_proto(kind, row) for row in getattr(proto, name))

    return put, get


def _nested(name: str, kind: type[Message], *, optional: bool) -> tuple[Put, Get]:
    def put(value: Any, proto: Any) -> None:
        if value is not None:
            field = getattr(proto, name)
            field.SetInParent()
            _coder(kind).put(value, field)

    def get(proto: Any) -> Any:
        if optional and not proto.HasField(name):
            return None
        return from_proto(kind, getattr(proto, name))

    return put, get


def _oneof(name: str, kinds: list[type[Message]], descriptor: Any) -> tuple[Put, Get]:
    """The member of the oneof `name` whose protobuf type has the name of the message's class."""
    members = {field.message_type.name: field.name for field in descriptor.oneofs_by_name[name].fields}
    member_of = {kind: members[kind.__name__] for kind in kinds}
    kind_of = {member: kind for kind, member in member_of.items()}

    def put(value: Any, proto: Any) -> None:
        field = getattr(proto, member_of[type(value)])
        field.SetInParent()
        _coder(type(value)).put(value, field)

    def get(proto: Any) -> Any:
        which = proto.WhichOneof(name)
        if which is None:
            raise InvalidMessage("a frame without a body")
        return from_proto(kind_of[which], getattr(proto, which))

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
