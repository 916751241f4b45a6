import numpy as np
import pytest

from services.scheduler.core.answer import AnswerReader, select_rows
from services.scheduler.core.flight import Flight
from services.scheduler.core.illegal_event import ExecutorBroke
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import State
from services.wire.execution import LogprobRows, StepResult
from services.wire.message import float32_column, int32_column
from tests.unit.scheduler.core.helpers import sequence


def flown() -> tuple[Running, Flight]:
    """Slots 0, 1 and 2 decode in plan 7."""
    running = Running(4, 16)
    for serial in range(3):
        one = sequence(serial, prompt=5)
        one.table = [serial]
        running.seat(one, 0)
        running.compute(one, 5)
    draws = np.arange(3)
    flight = Flight(
        plan=7,
        step=7,
        sent_us=0,
        num_left=running.num_left,
        num_tokens=3,
        decodes=draws,
        draws=draws,
        generations=running.columns.generation[draws],
        chunks=(),
    )
    return running, flight


def result(slots: list[int], counts: list[int] | None = None, plan: int = 7, **fields) -> StepResult:
    counts = [1] * len(slots) if counts is None else counts
    tokens = fields.pop("tokens", [50 + number for number in range(sum(counts))])
    return StepResult(
        plan=plan, slots=int32_column(slots), counts=int32_column(counts), tokens=int32_column(tokens), **fields
    )


def test_rows_may_come_in_any_order():
    """The executor's order is kept, slots and tokens together."""
    running, flight = flown()
    answer = AnswerReader(running, 100).read(result([2, 0, 1]), flight)
    assert (answer.slots.tolist(), answer.tokens.tolist()) == ([2, 0, 1], [50, 51, 52])


def test_the_same_slots_again_are_recognized():
    """The array of slots is the same object, so that shares of routers need not be made again."""
    running, flight = flown()
    reader = AnswerReader(running, 100)
    assert reader.read(result([0, 1, 2]), flight).slots is reader.read(result([0, 1, 2]), flight).slots


def test_one_that_left_and_one_that_failed_are_not_taken_for_each_other():
    """As many rows as sequences are left, but not theirs: the token of the one that left goes to nobody."""
    running, flight = flown()
    left, failed = running.sequences[0], 2
    running.unseat(left, State.ENDED)
    answer = AnswerReader(running, 100).read(result([0, 1], failed=int32_column([failed])), flight)
    assert (answer.slots.tolist(), answer.tokens.tolist(), answer.failed) == ([1], [51], [2])


def test_a_token_of_a_sequence_that_has_left_is_dropped():
    """Its slot may have another sequence by now."""
    running, flight = flown()
    running.unseat(running.sequences[1], State.ENDED)
    answer = AnswerReader(running, 100).read(result([0, 1, 2], stopped=int32_column([1, 2])), flight)
    assert (answer.slots.tolist(), answer.tokens.tolist(), answer.stopped) == ([0, 2], [50, 52], [2])


def test_a_failed_slot_need_not_draw():
    """It is reported, the others go on."""
    running, flight = flown()
    answer = AnswerReader(running, 100).read(result([0, 2], failed=int32_column([1])), flight)
    assert (answer.slots.tolist(), answer.failed) == ([0, 2], [1])


def test_a_row_without_a_token_is_as_good_as_none():
    """Count 0 for a slot that has left."""
    running, flight = flown()
    running.unseat(running.sequences[1], State.ENDED)
    answer = AnswerReader(running, 100).read(result([0, 1, 2], [1, 0, 1]), flight)
    assert answer.slots.tolist() == [0, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        result([0, 1, 2], plan=8),
        result([0, 1]),
        result([0, 1, 2, 3]),
        result([0, 1, 1]),
        result([0, 1, 2], [1, 2, 1]),
        result([0, 1, 2], tokens=[1, 2, 100]),
        result([0, 1, 2], tokens=[1, 2, -1]),
        result(
            [0, 1, 2],
            logprobs=LogprobRows(
                slots=int32_column([4]),
                positions=int32_column([1]),
                chosen=float32_column([0]),
                ranks=int32_column([1]),
                top_counts=int32_column([0]),
            ),
        ),
    ],
)
def test_a_result_that_answers_another_plan_is_refused(wrong: StepResult):
    """Wrong number, missing, foreign or double slots, two tokens, tokens outside the vocabulary, rows of no slot."""
    running, flight = flown()
    with pytest.raises(ExecutorBroke):
        AnswerReader(running, 100).read(wrong, flight)


def test_a_result_with_nothing_in_flight_is_refused():
    """There is nothing to answer."""
    with pytest.raises(ExecutorBroke, match="none"):
        AnswerReader(flown()[0], 100).read(result([]), None)


def test_selected_rows_keep_their_own_best_ones():
    """Flat columns are cut by the counts, slots become handles."""
    rows = LogprobRows(
        slots=int32_column([0, 2, 0]),
        positions=int32_column([5, 6, 7]),
        chosen=float32_column([-1, -2, -3]),
        ranks=int32_column([1, 2, 3]),
        top_counts=int32_column([1, 2, 0]),
        top_ids=int32_column([10, 20, 21]),
        top_logprobs=float32_column([-1, -2, -2.5]),
    )
    picked = select_rows(rows, np.array([False, True, True]), int32_column([100, 101, 102]))
    assert picked.slots.tolist() == [102, 100]
    assert picked.positions.tolist() == [6, 7]
    assert picked.top_ids.tolist() == [20, 21]
    assert picked.top_counts.tolist() == [2, 0]
    assert select_rows(rows, np.zeros(3, bool), int32_column([])) is None
