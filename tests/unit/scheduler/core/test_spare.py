import numpy as np

from services.scheduler.core.latency_class import LatencyClass
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.spare import QUIET_US, Spare
from services.scheduler.core.step_cost import StepCost
from tests.unit.scheduler.core.helpers import sequence

BATCH = LatencyClass("batch", is_spare=True)


class Yard:
    """16 slots; a step takes 10 ms and 100 us a token."""

    def __init__(self) -> None:
        self.running = Running(16, 16)
        self.queue = WaitingQueue(max_requests=99, max_tokens=10**6)
        cost = StepCost()
        for num_tokens in (1, 10, 100):
            cost.observe(num_tokens, 100, 10_000 + 100 * num_tokens, predicted_us=0)
        self.spare = Spare(self.running, self.queue, cost)
        self.num_made = 0

    def seat(self, *, is_spare: bool) -> Sequence:
        self.num_made += 1
        made = sequence(self.num_made, prompt=16)
        if is_spare:
            made.latency_class = BATCH
        self.running.seat(made, 0)
        return made

    def choose(self, at_us: int) -> list[int]:
        self.spare.begin_step(at_us)
        return self.spare.choose(np.arange(len(self.running))).tolist()


def test_beside_urgent_work_spare_tokens_add_a_twentieth():
    """10 ms of a step leave 0.5 ms: room for about 5 tokens, decodes first."""
    yard = Yard()
    yard.seat(is_spare=False)
    for _ in range(3):
        yard.seat(is_spare=True)
    assert yard.choose(0) == [0, 1, 2, 3]
    assert 1 <= yard.spare.left <= 2


def test_those_that_have_no_room_take_turns():
    """Each of ten decodes in every second step or so, the urgent one in each."""
    yard = Yard()
    yard.seat(is_spare=False)
    for _ in range(10):
        yard.seat(is_spare=True)
    chosen = [yard.choose(at_us) for at_us in range(20)]
    assert all(slots[0] == 0 and 4 <= len(slots) <= 6 for slots in chosen)
    assert {slot for slots in chosen[:3] for slot in slots} == set(range(11))
    assert yard.spare.left == 0


def test_spare_work_never_stands_still():
    """One token goes with each step, though a twentieth of it is less."""
    yard = Yard()
    yard.seat(is_spare=False)
    late = yard.seat(is_spare=True)
    yard.running.columns.computed[late.slot] = 10**9
    assert yard.choose(0) == [0, 1]


def test_between_urgent_requests_a_step_is_no_longer_than_theirs():
    """After a step of 20 urgent decodes, 12 ms, about 20 spare ones; after a quiet second all."""
    yard = Yard()
    urgent = [yard.seat(is_spare=False) for _ in range(8)]
    yard.choose(0)
    for one in urgent:
        yard.running.unseat(one, one.state.ENDED)
    for _ in range(16):
        yard.seat(is_spare=True)
    assert 7 <= len(yard.choose(1000)) <= 9
    assert len(yard.choose(QUIET_US + 2)) == 16
    assert yard.spare.left > 10**6


def test_slots_are_kept_for_newcomers():
    """Two of sixteen, unless it has been quiet."""
    yard = Yard()
    yard.seat(is_spare=False)
    for _ in range(12):
        yard.seat(is_spare=True)
    yard.spare.begin_step(0)
    assert yard.spare.may_enter
    yard.seat(is_spare=True)
    assert not yard.spare.may_enter
    quiet = Yard()
    for _ in range(15):
        quiet.seat(is_spare=True)
    quiet.spare.begin_step(0)
    assert quiet.spare.may_enter


def test_it_is_there_while_some_runs_or_waits():
    """Otherwise a step asks nothing of it."""
    yard = Yard()
    yard.seat(is_spare=False)
    assert not yard.spare.is_there
    waiting = sequence(99)
    waiting.latency_class = BATCH
    yard.queue.join(waiting)
    assert yard.spare.is_there
