import numpy as np

from services.scheduler.core import strikes
from services.scheduler.core.flight import Chunk, Flight
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence, State
from tests.unit.scheduler.core.helpers import sequence


def seated(running: Running, serial: int, **fields) -> Sequence:
    made = sequence(serial, prompt=20, **fields)
    made.table = [serial * 2, serial * 2 + 1]
    running.seat(made, 0)
    return made


def chunk_flight(one: Sequence, end: int) -> Flight:
    nobody = np.empty(0, np.intp)
    return Flight(
        plan=1,
        step=1,
        sent_us=0,
        num_left=0,
        num_tokens=end,
        decodes=nobody,
        draws=nobody,
        generations=np.empty(0, np.int32),
        chunks=(Chunk(one, one.order, one.slot, 0, end),),
    )


def test_one_whose_tokens_were_all_computed_before_is_no_suspect():
    """What an executor survived once does not kill the next one."""
    running = Running(2, 16)
    one = seated(running, 1)
    one.mark = 10
    assert strikes.suspects(chunk_flight(one, 10), running) == []
    assert strikes.suspects(chunk_flight(one, 11), running) == [one]


def test_one_that_has_left_its_slot_is_no_suspect():
    """It was not what the dead executor computed."""
    running = Running(2, 16)
    one = seated(running, 1)
    flight = chunk_flight(one, 20)
    running.unseat(one, State.WAITING)
    assert strikes.suspects(flight, running) == []


def grow(running: Running, one: Sequence) -> None:
    one.table = [0, 1]
    running.seat(one, 0)
    one.answered = one.mark + 1
    strikes.clear_grown(running)
    running.unseat(one, State.WAITING)


def test_strikes_are_cleared_by_growth_past_the_mark():
    """Reaching the same length again is not enough."""
    running = Running(2, 16)
    one = sequence(1, prompt=20)
    one.mark = 10
    strikes.Strikes().lose([one], 0)
    one.table = [0, 1]
    running.seat(one, 0)
    one.answered = 10
    strikes.clear_grown(running)
    assert one.strikes == 1
    one.answered = 11
    strikes.clear_grown(running)
    assert (one.strikes, one.losses) == (0, [])
    assert not running.struck


def test_the_third_loss_in_a_row_convicts():
    """Where every other loss was somebody's, each counts."""
    made, one = strikes.Strikes(), sequence(1)
    assert [made.lose([one], at) for at in range(3)] == [[], [], [one]]


def test_a_travelled_strike_counts():
    """Two executors lost elsewhere: the first one here convicts."""
    one = sequence(1, attempt=2)
    assert strikes.Strikes().lose([one], 0) == [one]


def test_unexplained_losses_are_forgiven_each_once_and_four_at_most():
    """One that all suspects outgrew, or that had none, makes a loss in a row worth nothing, for a minute."""
    running = Running(2, 16)
    for num_unexplained, num_losses in [(1, 4), (2, 5), (4, 7), (9, 7)]:
        made, grown = strikes.Strikes(), sequence(1, prompt=20)
        made.lose([grown], 0)
        grow(running, grown)
        for _ in range(num_unexplained - 1):
            made.lose([], 0)
        one = sequence(2)
        assert [bool(made.lose([one], 1)) for _ in range(num_losses)] == [False] * (num_losses - 1) + [True]
        late = sequence(3)
        assert [bool(made.lose([late], strikes.MEMORY_US + 1)) for _ in range(3)] == [False, False, True]


def test_a_loss_whose_suspect_ended_without_growing_is_not_unexplained():
    """A poisonous request that its client cancels earns the next one nothing."""
    made, one, other = strikes.Strikes(), sequence(1), sequence(2)
    made.lose([one], 0)
    strikes.leave(one)
    assert [made.lose([other], 1) for _ in range(3)] == [[], [], [other]]
    assert not any(loss.is_unexplained for loss in one.losses)


def test_a_convict_is_quarantined_first():
    """However old its losses are, when fewer are forgiven it is not convicted before it has run alone."""
    made, one = strikes.Strikes(), sequence(1)
    for _ in range(4):
        made.lose([], 0)
    for at in range(4):
        made.lose([one], at)
    assert one.strikes == 1
    assert made.lose([one], strikes.MEMORY_US + 1) == []
    assert one.is_quarantined
    assert made.lose([one], strikes.MEMORY_US + 2) == [one]
