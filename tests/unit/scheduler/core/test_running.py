import numpy as np

from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence, State
from tests.unit.scheduler.core.helpers import sequence


def seated(running: Running, serial: int, *, prefilled: bool = True, **fields) -> Sequence:
    made = sequence(serial, **{"prompt": 5, "max_tokens": 100, **fields})
    made.table = list(range(serial * 100, serial * 100 + -(-made.num_stored // 16)))
    running.seat(made, 0)
    if prefilled:
        running.compute(made, made.admitted_length)
    return made


def decodes(running: Running, budget: int = 100, *, seat_for_prefill: bool = False, alone: Sequence | None = None):
    running.choose_decodes(budget, seat_for_prefill=seat_for_prefill, alone=alone)
    chosen = running.decoding.tolist()
    started, paused = running.tell()
    running.advance()
    return chosen, started.tolist(), paused.tolist()


def test_those_whose_known_tokens_are_computed_decode():
    """A slot starts once, and is not mentioned again."""
    running = Running(4, 16)
    seated(running, 1)
    seated(running, 2, prefilled=False)
    assert decodes(running) == ([0], [0], [])
    assert decodes(running) == ([0], [], [])


def test_more_than_the_budget_take_turns():
    """Round robin over slots: three at a budget of two."""
    running = Running(4, 16)
    for serial in range(3):
        seated(running, serial)
    assert [decodes(running, 2)[0] for _ in range(3)] == [[0, 1], [0, 2], [1, 2]]


def test_turns_start_and_pause_only_what_changes():
    """The decode set is state at the executor."""
    running = Running(4, 16)
    for serial in range(3):
        seated(running, serial)
    assert decodes(running, 2)[1:] == ([0, 1], [])
    assert decodes(running, 2)[1:] == ([2], [1])


def test_prefill_has_one_seat_in_the_ring():
    """Two that decode and a prefill at a budget of two: each is left out once in three steps."""
    running = Running(4, 16)
    for serial in range(2):
        seated(running, serial)
    rounds = [decodes(running, 2, seat_for_prefill=True)[0] for _ in range(3)]
    assert rounds == [[0, 1], [0], [1]]


def test_one_that_runs_alone_pauses_the_others():
    """They go on afterwards."""
    running = Running(4, 16)
    made = [seated(running, serial) for serial in range(3)]
    decodes(running)
    assert decodes(running, alone=made[1]) == ([1], [], [0, 2])
    assert decodes(running) == ([0, 1, 2], [0, 2], [])


def test_a_slot_is_due_when_its_last_block_is_full():
    """And no more when its table has grown."""
    running = Running(2, 16)
    made = seated(running, 1, prompt=16)
    running.choose_decodes(9, seat_for_prefill=False, alone=None)
    assert running.due().tolist() == [0]
    made.table.append(7)
    running.grew(made)
    assert running.due().tolist() == []


def test_one_that_reaches_its_goal_leaves_the_decode_set_untold():
    """The executor stops it by itself."""
    running = Running(2, 16)
    seated(running, 1, max_tokens=2)
    assert decodes(running) == ([0], [0], [])
    assert decodes(running) == ([], [], [])


def test_a_sequence_that_leaves_has_all_its_tokens():
    """Those of whole blocks and those in the tail."""
    running = Running(2, 16)
    made = seated(running, 1, prompt=20)
    before = np.frombuffer(bytes(made.submit.token_ids.tobytes()), np.int32).tolist()
    running.columns.append_tokens(np.array([0]), np.array([77], np.int32))
    running.unseat(made, State.WAITING)
    assert np.frombuffer(bytes(made.stored), np.int32).tolist() == [*before, 77]
    assert running.take_released() == [0]
    assert running.take_released() == []


def test_the_books_say_how_much_the_running_may_still_need():
    """Growth is counted up to the limits, and back."""
    running = Running(2, 16)
    made = seated(running, 1, prompt=16, max_tokens=33)
    assert running.growth == 2
    made.table.append(5)
    running.grew(made)
    assert running.growth == 1
    running.check_integrity()
    running.unseat(made, State.ENDED)
    assert running.growth == 0
    running.check_integrity()


def test_the_newest_is_the_one_admitted_last():
    """Slots are used again, orders are not."""
    running = Running(2, 16)
    first, second = seated(running, 1), seated(running, 2)
    running.unseat(first, State.ENDED)
    third = seated(running, 3)
    assert third.slot == 0
    assert list(running) == [second, third]
    assert list(running) == [second, third]
