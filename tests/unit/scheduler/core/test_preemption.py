from services.scheduler.core import preemption
from services.scheduler.core.latency_class import LatencyClass
from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.running import Running
from tests.unit.scheduler.core.helpers import sequence


def running() -> Running:
    made = Running(4, 16)
    for serial in range(2):
        one = sequence(serial, prompt=16, max_tokens=65)
        one.table = [serial]
        made.seat(one, 0)
    return made


def test_the_victim_is_the_newest():
    """Never one that is older than the one in need."""
    slots = running()
    assert preemption.victim(slots, FirstCome()).serial == 1


def test_one_that_has_given_way_is_spared():
    """While there is another; so nobody gives way twice."""
    slots = running()
    newest = list(slots)[1]
    newest.was_preempted = True
    assert preemption.victim(slots, FirstCome()).serial == 0
    next(iter(slots)).was_preempted = True
    assert preemption.victim(slots, FirstCome()) is newest


def test_a_newcomer_leaves_a_block_for_each_that_runs():
    """Or as many as all can still need, where that is less."""
    newcomer = sequence(5, prompt=16, max_tokens=65)
    assert preemption.headroom_blocks(newcomer, running(), 1) == 3
    small = sequence(5, prompt=16, max_tokens=1)
    assert preemption.headroom_blocks(small, Running(4, 16), 1) == 0


def test_one_that_gave_way_returns_when_all_can_grow_to_their_limits():
    """Four more blocks for each of the two that run, and for itself."""
    back = sequence(5, prompt=16, max_tokens=65)
    back.was_preempted = True
    assert preemption.headroom_blocks(back, running(), 1) == 12


def test_spare_work_gives_way_before_all_other():
    """Again and again, and comes in only where all that run can grow to their limits."""
    slots = running()
    oldest = next(iter(slots))
    oldest.latency_class = LatencyClass("batch", is_spare=True)
    oldest.was_preempted = True
    assert preemption.victim(slots, FirstCome()) is oldest
    newcomer = sequence(5, prompt=16, max_tokens=65)
    newcomer.latency_class = oldest.latency_class
    assert preemption.headroom_blocks(newcomer, running(), 1) == 12


def test_those_who_would_leave_keep_nothing_idle():
    """Neither the block of a newcomer's that each has, nor what they could grow by."""
    slots = running()
    (oldest, *_) = slots
    newcomer = sequence(5, prompt=16, max_tokens=65)
    assert preemption.headroom_blocks(newcomer, slots, 1, [oldest]) == 2
    newcomer.was_preempted = True
    assert preemption.headroom_blocks(newcomer, slots, 1, [oldest]) == 8
