from services.scheduler.core.alarms import Alarms
from services.scheduler.core.sequence import State
from tests.unit.scheduler.core.helpers import sequence


def test_due_alarms_come_oldest_first():
    """And those of the same moment in the order of arrival."""
    alarms, made = Alarms(), [sequence(serial) for serial in range(3)]
    for one, at_us in zip(made, (20, 10, 20), strict=True):
        one.deadline_us = at_us
        alarms.set(at_us, one)
    assert alarms.next_us() == 10
    assert alarms.due(20) == [made[1], made[0], made[2]]
    assert alarms.next_us() is None


def test_alarms_of_the_ended_are_not_waited_for():
    """The next moment is one of a living sequence."""
    alarms, made = Alarms(), [sequence(serial) for serial in range(2)]
    for one, at_us in zip(made, (10, 20), strict=True):
        one.deadline_us = at_us
        alarms.set(at_us, one)
    made[0].move(State.ENDED)
    assert alarms.next_us() == 20


def test_memory_follows_the_living():
    """Ten thousand short requests with far deadlines leave a short heap."""
    alarms = Alarms()
    for serial in range(10_000):
        one = sequence(serial, prompt=1)
        one.deadline_us = 10**12 + serial
        alarms.set(one.deadline_us, one)
        one.move(State.ENDED)
    assert len(alarms) < 200
