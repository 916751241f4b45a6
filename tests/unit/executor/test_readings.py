"""Readings: which hidden states of a step are asked for, and what each is for."""

from services.executor.readings import PromptReading, Readings
from services.executor.slots import Slot
from services.executor.work import Work
from services.wire.execution import AdmittedSlot, Sampling
from services.wire.message import int32_column


def slot(length, *, limit=100, prompt_length=None, prompt_logprobs=-1):
    admitted = AdmittedSlot(
        slot=0,
        token_ids=int32_column(range(length)),
        prompt_length=prompt_length or length,
        token_limit=limit,
        blocks=int32_column(range(7)),
        sampling=Sampling(prompt_logprobs=prompt_logprobs),
    )
    return Slot(admitted, ())


def test_a_slot_draws_from_its_last_row_where_its_last_token_is_computed():
    """Decoding slots and last chunks draw; a chunk before, and a slot at its limit or that has ended, do not."""
    decoding, prefilling, last, full, ended = slot(9), slot(30), slot(20), slot(5, limit=5), slot(6)
    ended.ended = True
    work = [Work(decoding, 8, 1), Work(prefilling, 0, 16), Work(last, 16, 4), Work(full, 0, 5), Work(ended, 5, 1)]
    readings = Readings.of(work)
    assert readings == Readings(rows=[0, 20], prompts=[], drawing=[decoding, last], drawn_from=[0, 1])
    assert [item.draws for item in work] == [True, False, True, False, False]


def test_prompt_positions_are_read_from_the_row_before_each():
    """A row is asked for once, and those for drawing stand among those for the prompt."""
    first, second = slot(6, prompt_logprobs=1), slot(8, prompt_length=7, prompt_logprobs=1)
    readings = Readings.of([Work(first, 0, 4), Work(slot(3), 2, 1), Work(second, 4, 4)])
    assert readings.rows == [0, 1, 2, 3, 4, 5, 6, 8]
    assert readings.prompts == [PromptReading(first, range(1, 5), 0), PromptReading(second, range(5, 7), 5)]
    assert readings.drawn_from == [4, 7]


def test_a_step_may_ask_for_nothing():
    """The middle of a prompt is computed for its keys and values alone."""
    assert Readings.of([Work(slot(30), 8, 8)]) == Readings()
