"""A slot of the simulated executor."""

import pytest

from services.executor.simulated_script import LogprobTable
from services.executor.simulated_slot import BrokenPlan, SimulatedSlot
from services.wire.execution import AdmittedSlot, Sampling
from services.wire.message import int32_column


def _slot(text=b"hello", limit=20, **sampling):
    admitted = AdmittedSlot(
        slot=2,
        token_ids=int32_column(list(text)),
        prompt_length=len(text),
        token_limit=limit,
        blocks=int32_column(),
        sampling=Sampling(**sampling),
    )
    return SimulatedSlot(admitted, "echo", 16)


def test_digests_tell_sequences_apart_from_their_first_difference_on():
    """Equal beginnings have equal digests; after a difference none are equal, and none is the empty cell's 0."""
    one, two = _slot(b"same start, one"), _slot(b"same start, two")
    assert one.digests[1:13].tolist() == two.digests[1:13].tolist()
    assert not set(one.digests[13:16].tolist()) & set(two.digests[13:16].tolist())
    assert 0 not in one.digests[1:16].tolist()


def test_a_learnt_token_is_known_and_last():
    """Learning grows the sequence by one."""
    slot = _slot()
    slot.learn(65)
    assert (slot.known, slot.last_token) == (6, 65)
    assert slot.digests[6] != 0


def test_blocks_beyond_the_limit_are_refused():
    """A slot never needs more blocks than its token limit fills."""
    slot = _slot(limit=20)
    slot.append(4)
    slot.append(5)
    with pytest.raises(BrokenPlan):
        slot.append(6)


def test_prompt_rows_are_those_that_the_computed_tokens_predict():
    """The last computed token of a prompt predicts an output, not a prompt token."""
    slot, table = _slot(prompt_logprobs=0), LogprobTable()
    slot.computed = 5
    slot.add_prompt_logprobs(table, 3)
    assert table.rows().positions.tolist() == [3, 4]
    silent = LogprobTable()
    _slot().add_prompt_logprobs(silent, 3)
    assert silent.rows() is None
