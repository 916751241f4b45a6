from services.scheduler.core.line import Line
from tests.unit.scheduler.core.helpers import sequence


def test_the_smallest_rank_is_first_and_equals_go_by_arrival():
    """Whatever the order in which they join."""
    line, made = Line(), [sequence(serial) for serial in range(4)]
    for one, rank in zip(made, (5, 3, 3, 9), strict=True):
        line.join(one, (False, rank))
    assert line.first == ((False, 3), made[1])
    assert [each.serial for _, each in line] == [1, 2, 0, 3]


def test_one_may_leave_from_the_middle():
    """Leave undoes join."""
    line, made = Line(), [sequence(serial) for serial in range(3)]
    for one in made:
        line.join(one, (False, 0))
    line.leave(made[1])
    line.leave(made[0])
    assert line.first == ((False, 0), made[2])
    assert len(line) == 1


def test_memory_follows_those_that_wait():
    """Thousands that left from behind the first leave little behind."""
    line = Line()
    line.join(sequence(0), (False, 0))
    for serial in range(1, 5000):
        one = sequence(serial, prompt=1)
        line.join(one, (False, serial))
        line.leave(one)
    assert len(line._heap) < 100
