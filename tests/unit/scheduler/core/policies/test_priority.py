from services.scheduler.core.policies.priority import MOST, Priority
from services.scheduler.core.sequence import Sequence
from tests.unit.scheduler.core.helpers import sequence


def arrived(at_us: int, priority: int) -> Sequence:
    made = sequence(1, priority=priority)
    made.arrived_us = at_us
    return made


def test_a_smaller_number_is_sooner():
    """As the contract says; equals stay equal."""
    policy = Priority(1000)
    assert policy.rank(arrived(50, -1)) < policy.rank(arrived(50, 0)) < policy.rank(arrived(50, 1))
    assert policy.rank(arrived(50, 0)) == policy.rank(arrived(50, 0))


def test_a_level_is_worth_a_wait():
    """What came 3 ms earlier is before what is 3 levels higher, at 1 ms a level, and not before 4."""
    policy = Priority(1000)
    assert policy.rank(arrived(0, 3)) == policy.rank(arrived(3000, 0))
    assert policy.rank(arrived(0, 4)) > policy.rank(arrived(3000, 0))


def test_nobody_is_higher_than_the_most():
    """So a client cannot wait for less than that."""
    policy = Priority(1000)
    assert policy.rank(arrived(0, -(2**31))) == policy.rank(arrived(0, -MOST))
    assert policy.rank(arrived(0, 2**31 - 1)) == policy.rank(arrived(0, MOST))
