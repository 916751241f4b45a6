"""The codec: any message survives the trip, equal messages give equal bytes, and garbage is refused."""

import contextlib
import dataclasses
import math
import types
import typing
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.wire import codec
from services.wire.execution import GREEDY, PROTOCOL, FromExecutor, Reset, StepPlan, StepResult, ToExecutor
from services.wire.message import FLOAT32, INT32, InvalidMessage, Message, float32_column, int32_column
from services.wire.scheduling import Submit

MESSAGES = codec.message_classes()


def _values(kind, name, hint):
    """A strategy for the values of one field."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        floats = np.float32 in typing.get_args(arguments[1])
        if floats:
            return st.lists(st.floats(width=32, allow_nan=False), max_size=3).map(float32_column)
        return st.lists(st.integers(0, 5), max_size=3).map(int32_column)
    if origin is tuple:
        if arguments[0] is str:
            return st.lists(st.text(max_size=5), max_size=2).map(tuple)
        return st.lists(messages(arguments[0]), min_size=1, max_size=1).map(tuple)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*(st.none() if a is type(None) else messages(a) for a in arguments))
    if issubclass(hint, Message):
        return messages(hint)
    if issubclass(hint, IntEnum):
        return st.sampled_from(list(hint))
    if hint is bool:
        return st.booleans()
    if hint is int:
        field = codec._proto_class(kind).DESCRIPTOR.fields_by_name[name]
        largest = {5: 2**31 - 1, 13: 2**32 - 1, 3: 2**63 - 1, 4: 2**64 - 1, 6: 2**64 - 1}[field.type]
        return st.one_of(st.integers(0, 5), st.integers(0, largest))
    if hint is float:
        return st.floats(0, 10, width=32)
    if hint is bytes:
        return st.binary(min_size=16, max_size=16)
    return st.text(max_size=8)


def messages(kind):
    """Random valid messages of a class; what breaks its contract is drawn again."""
    hints = typing.get_type_hints(kind)
    fields = {f.name: _values(kind, f.name, hints[f.name]) for f in dataclasses.fields(kind)}

    @st.composite
    def build(draw):
        for _ in range(30):
            try:
                return kind(**{name: draw(values) for name, values in fields.items()})
            except InvalidMessage:
                continue
        required = {
            f.name: draw(fields[f.name])
            for f in dataclasses.fields(kind)
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        }
        try:
            return kind(**required)
        except InvalidMessage:
            from hypothesis import reject

            reject()

    return build()


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_class_has_a_protobuf_message_with_exactly_its_fields(kind):
    """A field that is only in the contract, or only in the code, is a field that is lost."""
    descriptor = codec._proto_class(kind).DESCRIPTOR
    outside_oneofs = {f.name for f in descriptor.fields if f.containing_oneof is None}
    mine = {f.name for f in dataclasses.fields(kind)}
    assert mine == outside_oneofs | {oneof.name for oneof in descriptor.oneofs}


@given(st.sampled_from(MESSAGES).flatmap(messages))
def test_a_message_survives_the_trip_and_equal_messages_give_equal_bytes(sent):
    """decode(encode(m)) == m, and encoding what arrived gives the same bytes."""
    data = codec.encode(sent)
    received = codec.decode(type(sent), data)
    assert received == sent
    assert codec.encode(received) == data


@given(st.sampled_from([ToExecutor, FromExecutor, Submit, StepResult]), st.binary(max_size=200))
def test_garbage_is_refused_or_read_but_nothing_else_is_raised(kind, data):
    """Bytes from a stranger never raise anything but InvalidMessage."""
    with contextlib.suppress(InvalidMessage):
        codec.decode(kind, data)


def test_a_frame_without_a_body_is_refused():
    """A frame must say something."""
    with pytest.raises(InvalidMessage, match="without a body"):
        codec.decode(ToExecutor, b"\x08\x01")


def test_a_column_is_read_without_a_copy_and_cannot_be_written():
    """Decoded columns are read-only views."""
    plan = codec.decode(StepPlan, codec.encode(StepPlan(plan=1, released=int32_column([3, 4]))))
    assert plan.released.dtype == INT32
    assert plan.released.tolist() == [3, 4]
    with pytest.raises(ValueError, match="read-only"):
        plan.released[0] = 1


def test_a_column_whose_bytes_are_no_whole_numbers_is_refused():
    """Three bytes are not an int32."""
    proto = codec.to_proto(StepPlan(plan=1))
    proto.released = b"abc"
    with pytest.raises(InvalidMessage):
        codec.decode(StepPlan, proto.SerializeToString())


def test_columns_that_belong_together_have_the_same_length():
    """A block append names a slot and a block."""
    with pytest.raises(InvalidMessage, match="append columns"):
        StepPlan(plan=1, append_slots=int32_column([1]))


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, -1.0])
def test_a_weight_is_a_finite_number_that_is_not_negative(weight: float):
    """Also when it comes over the wire: no core could count by it."""
    submit = Submit(
        handle=1, request_id="r", token_ids=int32_column([1]), prompt_length=1, chain_root=bytes(16), sampling=GREEDY
    )
    proto = codec.to_proto(submit)
    proto.tenant_weight = weight
    with pytest.raises(InvalidMessage, match="weight"):
        codec.decode(Submit, proto.SerializeToString())


def test_a_step_in_which_nothing_changes_is_about_a_hundred_bytes():
    """A plan is a delta: its size does not grow with the batch."""
    assert (
        len(codec.encode(ToExecutor(protocol=PROTOCOL, session=2**63, body=StepPlan(plan=10**9, time_limit_ms=9))))
        < 100
    )


def test_float_columns_compare_not_a_number_equal_to_itself():
    """A log-probability that is missing is NaN, and two messages that miss it are equal."""
    assert float32_column([float("nan")]).dtype == FLOAT32
    a = Reset(max_slots=1, max_step_tokens=1)
    assert a == Reset(max_slots=1, max_step_tokens=1)
    assert a != Reset(max_slots=2, max_step_tokens=1)
