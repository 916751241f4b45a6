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
    assert strikes.suspects([chunk_flight(one, 10)], running) == {}
    assert strikes.suspects([chunk_flight(one, 11)], running) == {1: one}


def test_one_that_has_left_its_slot_is_no_suspect():
    """It was not what the dead executor computed."""
    running = Running(2, 16)
    one = seated(running, 1)
    flight = chunk_flight(one, 20)
    running.unseat(one, State.WAITING)
    assert strikes.suspects([flight], running) == {}


def test_one_loss_is_one_strike_whatever_is_in_flight():
    """Two unanswered plans of a pipeline count once."""
    running = Running(2, 16)
    one = seated(running, 1)
    assert list(strikes.suspects([chunk_flight(one, 5), chunk_flight(one, 20)], running)) == [1]


def test_strikes_are_cleared_by_growth_past_the_mark():
    """Reaching the same length again is not enough."""
    running = Running(2, 16)
    one = sequence(1, prompt=20)
    one.mark = 10
    strikes.strike(one)
    one.table = [0, 1]
    running.seat(one, 0)
    one.answered = 10
    strikes.clear_grown(running)
    assert one.strikes == 1
    one.answered = 11
    strikes.clear_grown(running)
    assert one.strikes == 0
    assert not running.struck
