from services.scheduler.core.queue import WaitingQueue
from tests.unit.scheduler.core.helpers import sequence


def queue(**fields: int) -> WaitingQueue:
    return WaitingQueue(**{"max_requests": 2, "max_tokens": 100, **fields})


def test_newcomers_stand_at_the_back_and_those_that_ran_at_the_front():
    """Join, then rejoin."""
    waiting, made = queue(), [sequence(serial) for serial in range(3)]
    waiting.join(made[0])
    waiting.join(made[1])
    waiting.rejoin(made[2])
    assert list(waiting) == [made[2], made[0], made[1]]
    assert waiting.head is made[2]
    assert waiting.position(made[1]) == 2


def test_the_queue_is_bounded_in_requests_and_in_tokens():
    """Both bounds count; an empty queue takes anything."""
    waiting = queue(max_requests=2, max_tokens=50)
    assert waiting.can_join(1000)
    waiting.join(sequence(1, prompt=20))
    assert waiting.can_join(30)
    assert not waiting.can_join(31)
    waiting.join(sequence(2, prompt=20))
    assert not waiting.can_join(1)


def test_tokens_are_counted_back_when_one_leaves():
    """Leave undoes join, from the middle too."""
    waiting, made = queue(), [sequence(serial, prompt=10) for serial in range(3)]
    for one in made:
        waiting.join(one)
    waiting.leave(made[1])
    assert (len(waiting), waiting.num_tokens) == (2, 20)
    waiting.check_integrity()


def test_the_first_of_other_tenants_is_found():
    """Those at their quota are passed over."""
    waiting = queue(max_requests=9)
    for serial, tenant in enumerate("aab"):
        waiting.join(sequence(serial, tenant=tenant))
    assert waiting.first({"a"}).serial == 2
    assert waiting.first({"a", "b"}) is None
