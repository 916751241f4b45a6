"""Slots: how a plan's changes are applied, and which plans are refused."""

import numpy as np
import pytest

from services.executor.slots import InvalidPlan, Slot, Slots
from services.wire.execution import GREEDY, AdmittedSlot, RequestKind, Sampling, StepPlan
from services.wire.message import int32_column


def new_slots():
    return Slots(max_slots=4, num_blocks=10, context_length=100, vocab_size=50, eos_ids=(1,))


def admission(slot=0, tokens=(5, 6, 7), **changes):
    fields = {
        "slot": slot,
        "token_ids": int32_column(tokens),
        "prompt_length": 2,
        "token_limit": 5,
        "blocks": int32_column([3]),
        "sampling": GREEDY,
    }
    return AdmittedSlot(**(fields | changes))


def plan(*admitted, **columns):
    return StepPlan(plan=1, admitted=admitted, **{name: int32_column(values) for name, values in columns.items()})


def decoding(slots):
    return [slot.admitted.slot for slot in slots.decoding()]


def test_admission_keeps_the_sequence_whole():
    """Tokens, prompt, output count, blocks and computed length are those of the plan."""
    slots = new_slots()
    slots.apply(plan(admission(computed_length=1)))
    slot = slots.get(0)
    assert slot.tokens.tolist() == [5, 6, 7]
    assert slot.prompt.tolist() == [5, 6]
    assert (slot.length, slot.computed, slot.num_output_tokens) == (3, 1, 1)
    assert slot.blocks.tolist() == [3]


def test_changes_are_applied_in_the_order_of_the_contract():
    """A slot is released, given to another, gets a block and starts in one plan."""
    slots = new_slots()
    slots.apply(plan(admission(), started=[0]))
    new = admission(tokens=range(17), token_limit=32)
    slots.apply(plan(new, released=[0], append_slots=[0], append_blocks=[9], started=[0]))
    assert slots.get(0).blocks.tolist() == [3, 9]
    assert decoding(slots) == [0]


def test_a_released_slot_leaves_the_decode_set():
    """The next sequence in a slot does not decode before it is started."""
    slots = new_slots()
    slots.apply(plan(admission(), started=[0]))
    slots.apply(plan(admission(), released=[0]))
    assert decoding(slots) == []


def test_a_paused_slot_rests_until_it_is_started_again():
    """Pausing takes a slot out of the decode set and forgets nothing of it."""
    slots = new_slots()
    slots.apply(plan(admission(0), admission(2), started=[2, 0]))
    slots.apply(plan(paused=[0]))
    assert decoding(slots) == [2]
    assert not slots.is_decoding(0)
    slots.apply(plan(started=[0]))
    assert decoding(slots) == [0, 2]


@pytest.mark.parametrize(("token", "stopped"), [(1, True), (9, True), (2, False)])
def test_a_stop_token_ends_a_slot_by_itself(token, stopped):
    """The end token and the request's own stop ids leave the slot with nothing to compute."""
    slots = new_slots()
    slots.apply(plan(admission(sampling=Sampling(stop_ids=int32_column([9]))), started=[0]))
    assert slots.get(0).append_token(token) is stopped
    assert decoding(slots) == ([] if stopped else [0])


def test_the_limit_ends_a_slot_by_itself():
    """A slot at its token limit computes nothing, though it is in the decode set."""
    slots = new_slots()
    slots.apply(plan(admission(), started=[0]))
    for _ in range(2):
        assert slots.get(0).may_draw
        slots.get(0).append_token(4)
    assert not slots.get(0).may_draw
    assert decoding(slots) == []
    assert slots.is_decoding(0)


def test_ignore_eos_leaves_only_the_requests_own_stop_ids():
    """With ignore_eos the model's end token is a token like any other."""
    wanted = Sampling(ignore_eos=True, stop_ids=int32_column([9]))
    assert Slot(admission(sampling=wanted), (1,)).stop_ids == {9}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"slot": 4}, "cannot be given"),
        ({"tokens": (5, 50)}, "outside the vocabulary"),
        ({"tokens": (5, -1)}, "outside the vocabulary"),
        ({"token_limit": 101}, "past the model's context"),
        ({"blocks": int32_column([10])}, "outside the pool"),
        ({"blocks": int32_column([-1])}, "outside the pool"),
        ({"blocks": int32_column([1, 2])}, "more blocks"),
        ({"grammar": "root ::= x"}, "grammar"),
        ({"adapter": "lora"}, "adapter"),
        ({"kind": RequestKind.EMBED}, "kind"),
    ],
)
def test_an_admission_that_cannot_be_is_refused(changes, words):
    """Ids outside their range, and what this executor does not have, break the session with a reason."""
    with pytest.raises(InvalidPlan, match=words):
        new_slots().apply(plan(admission(**changes)))


@pytest.mark.parametrize(
    "columns",
    [
        {"released": [0]},
        {"paused": [0]},
        {"started": [-1]},
        {"append_slots": [0], "append_blocks": [1]},
        {"released": [7]},
    ],
)
def test_a_change_to_an_empty_slot_is_refused(columns):
    """Only an admission makes something of an empty slot."""
    with pytest.raises(InvalidPlan, match="holds no sequence"):
        new_slots().apply(plan(**columns))


def test_a_taken_slot_is_refused_to_another_sequence():
    """A slot is released before it is given away."""
    slots = new_slots()
    slots.apply(plan(admission()))
    with pytest.raises(InvalidPlan, match="cannot be given"):
        slots.apply(plan(admission()))


def test_tokens_are_copied():
    """A slot's tokens live on their own, not in the frame that brought them."""
    tokens = np.array([5, 6, 7], np.int32)
    slot = Slot(admission(token_ids=tokens), ())
    tokens[0] = 9
    assert slot.tokens.tolist() == [5, 6, 7]
