from services.scheduler.core.block_pool import BlockPool
from services.scheduler.core.blocked import MOST_HELD, Blocked
from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.policies.policy import Policy
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.sequence import Sequence
from tests.unit.scheduler.core.helpers import sequence


class Gate:
    """A queue in which everyone who is next is found not to fit."""

    def __init__(self, num_waiting: int, pass_us: int = 1000, policy: Policy | None = None) -> None:
        self.queue = WaitingQueue(max_requests=99, max_tokens=10**6, policy=policy)
        self.pool = BlockPool(8, lambda _: None)
        self.blocked = Blocked(self.queue, self.pool, pass_us=pass_us)
        self.made = [sequence(serial) for serial in range(num_waiting)]
        for one in self.made:
            self.queue.join(one)

    def fail(self, at_us: int) -> bool:
        """Whether the head, which does not fit, may be passed."""
        head = self.queue.head
        assert isinstance(head, Sequence)
        self.blocked.note(head, at_us)
        return self.blocked.may_be_passed(head, at_us)


def test_others_may_pass_one_that_does_not_fit():
    """It stays before them all, and is not next while it is held."""
    gate = Gate(3)
    assert gate.fail(0)
    assert gate.queue.head is gate.made[1]
    assert list(gate.queue) == gate.made
    assert gate.blocked.is_blocked(gate.made[0])
    gate.queue.check_integrity()


def test_when_something_is_released_it_is_tried_first():
    """Before those that have been let pass."""
    gate = Gate(3)
    gate.fail(0)
    gate.blocked.begin_step(1)
    assert gate.queue.head is gate.made[1]
    gate.pool.release(gate.pool.take(1))
    gate.blocked.begin_step(2)
    assert gate.queue.head is gate.made[0]
    assert not gate.blocked.is_blocked(gate.made[0])


def test_it_is_passed_for_a_bounded_time():
    """From when it was first in need, however often it was tried in between; then all wait for it."""
    gate = Gate(2)
    assert gate.fail(0)
    for at_us in (400, 900):
        gate.pool.release(gate.pool.take(1))
        gate.blocked.begin_step(at_us)
        assert gate.fail(at_us)
    gate.blocked.begin_step(1000)
    assert gate.queue.head is gate.made[0]
    assert not gate.fail(1000)
    assert gate.blocked.is_blocked(gate.made[0])


def test_no_more_than_a_few_are_tried():
    """A queue of those that do not fit costs no more than that."""
    gate = Gate(9)
    assert [gate.fail(0) for _ in range(MOST_HELD + 1)] == [True] * MOST_HELD + [False]
    assert gate.queue.head is gate.made[MOST_HELD]


def test_with_no_time_to_pass_all_wait():
    """As the setting 0 says."""
    assert not Gate(2, pass_us=0).fail(0)


class Odd(FirstCome):
    """Nobody passes one with an odd number."""

    def may_pass(self, sequence: Sequence, blocked: Sequence) -> bool:
        return blocked.serial % 2 == 0


def test_the_policy_may_keep_one_from_passing():
    """It is asked for each of those that are held."""
    gate = Gate(3, policy=Odd())
    assert gate.blocked.may_pass(gate.made[2])
    gate.fail(0)
    assert gate.blocked.may_pass(gate.made[2])
    gate.fail(0)
    assert not gate.blocked.may_pass(gate.made[2])
