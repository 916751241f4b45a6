import random

from services.scheduler.core.latency_class import LatencyClass
from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.sequence import Sequence
from tests.unit.scheduler.core.helpers import sequence


def queue(**fields: object) -> WaitingQueue:
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
    assert waiting.can_join(1000, is_spare=False)
    waiting.join(sequence(1, prompt=20))
    assert waiting.can_join(30, is_spare=False)
    assert not waiting.can_join(31, is_spare=False)
    waiting.join(sequence(2, prompt=20))
    assert not waiting.can_join(1, is_spare=False)


def test_spare_work_fills_the_queue_for_spare_work_alone():
    """Others find it as if that were not there; spare work finds all."""
    waiting = queue(max_requests=2, max_tokens=50)
    for serial in (1, 2):
        spare = sequence(serial, prompt=20)
        spare.latency_class = LatencyClass("batch", is_spare=True)
        waiting.join(spare)
    assert not waiting.can_join(1, is_spare=True)
    assert waiting.can_join(1000, is_spare=False)
    waiting.join(sequence(3, prompt=20))
    assert waiting.can_join(30, is_spare=False)
    assert not waiting.can_join(31, is_spare=False)
    assert not waiting.can_join(1, is_spare=True)


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


class Turns(FirstCome):
    """Ranks by priority; tenants by a turn that a test moves."""

    def __init__(self) -> None:
        self.turns = {}

    def rank(self, sequence: Sequence) -> int:
        return sequence.submit.priority

    def turn(self, sequence: Sequence, rank: int) -> int:
        return self.turns.get(sequence.submit.tenant, rank)

    def price(self, sequence: Sequence) -> int:
        return 10 if self.turns else 0


def test_a_policy_orders_those_of_a_tenant_and_the_tenants():
    """Ranks within a line, turns between lines; the iteration goes on with what an admission costs."""
    policy = Turns()
    waiting = queue(max_requests=9, policy=policy)
    policy.turns = {"a": 5, "b": 7}
    for serial, (tenant, priority) in enumerate((("a", 3), ("a", 1), ("b", 2), ("a", 2))):
        waiting.join(sequence(serial, tenant=tenant, priority=priority))
    assert [each.serial for each in waiting] == [1, 2, 3, 0]


def test_a_turn_that_has_moved_back_is_found_when_it_comes_up():
    """Nothing is sorted again when it moves."""
    policy = Turns()
    waiting = queue(max_requests=9, policy=policy)
    policy.turns = {"a": 1, "b": 2}
    for serial, tenant in enumerate("aab"):
        waiting.join(sequence(serial, tenant=tenant))
    assert waiting.head.serial == 0
    policy.turns["a"] = 3
    assert waiting.head.serial == 2
    assert waiting.first({"b"}).serial == 0
    assert waiting.head.serial == 2
    waiting.check_integrity()


def test_of_tenants_in_the_same_turn_the_first_who_came_is_next():
    """Also when the first of a tenant has left, and the next of it came before that one."""
    policy = Turns()
    waiting = queue(max_requests=9, policy=policy)
    policy.turns = {"a": 1, "b": 1}
    made = [sequence(serial, tenant="aba"[serial], priority=(5, 0, 0)[serial]) for serial in range(3)]
    for one in made:
        waiting.join(one)
    assert waiting.head is made[1]
    waiting.leave(made[2])
    assert waiting.head is made[0]
    waiting.check_integrity()


def test_the_head_is_always_the_first_of_the_order():
    """Whoever joins, comes back, or leaves from anywhere; and no heap outgrows those that wait."""
    rng, policy = random.Random(5), Turns()
    waiting, inside = queue(max_requests=10**6, policy=policy), []
    for serial in range(4000):
        if serial == 2000:
            policy.turns = dict.fromkeys("abcd", 100)
        if len(inside) < 30 and rng.random() < 0.6:
            one = sequence(serial, prompt=1, tenant=rng.choice("abcd"), priority=rng.randrange(-50, 50))
            one.latency_class = LatencyClass("c", is_spare=rng.random() < 0.3)
            (waiting.rejoin if rng.random() < 0.1 else waiting.join)(one)
            inside.append(one)
        elif inside:
            leaver = waiting.head if rng.random() < 0.7 else rng.choice(inside)
            waiting.leave(leaver)
            inside.remove(leaver)
        waiting.check_integrity()
    assert len(waiting._turns) < 200


def test_spare_work_stands_behind_all_other():
    """Whatever came first, and what of it has run stands before the rest of it."""
    waiting = queue(max_requests=9)
    made = [sequence(serial, tenant="ab"[serial % 2]) for serial in range(6)]
    for one in (made[0], made[1], made[4]):
        one.latency_class = LatencyClass("batch", is_spare=True)
    for one in made[:4]:
        waiting.join(one)
    waiting.rejoin(made[4])
    waiting.rejoin(made[5])
    assert [each.serial for each in waiting] == [5, 2, 3, 4, 0, 1]
    assert waiting.num_spare == 3
    for expected in (5, 2, 3, 4, 0, 1):
        waiting.check_integrity()
        assert waiting.head.serial == expected
        waiting.leave(waiting.head)
    assert (len(waiting), waiting.num_spare) == (0, 0)


def test_the_first_of_other_tenants_is_found_in_spare_work_too():
    """Behind urgent work of tenants at their quota."""
    waiting = queue(max_requests=9)
    for serial, (tenant, is_spare) in enumerate((("a", False), ("b", True), ("a", True))):
        one = sequence(serial, tenant=tenant)
        one.latency_class = LatencyClass("c", is_spare=is_spare)
        waiting.join(one)
    assert waiting.first({"a"}).serial == 1
    assert waiting.first({"a", "b"}) is None


def test_one_that_is_held_stays_before_all_others_and_is_not_next():
    """From a line or from the front; when nobody may pass it any more it is next, and it may leave meanwhile."""
    waiting, made = queue(max_requests=9), [sequence(serial) for serial in range(5)]
    for one in made[:4]:
        waiting.join(one)
    waiting.rejoin(made[4])
    for expected in (4, 0, 1):
        assert waiting.head.serial == expected
        waiting.hold(waiting.head)
        waiting.check_integrity()
    assert [each.serial for each in waiting] == [4, 0, 1, 2, 3]
    assert (waiting.head, waiting.num_held) == (made[2], 3)
    waiting.leave(made[0])
    waiting.unhold()
    assert (waiting.head, waiting.num_held) == (made[4], 0)
    assert [each.serial for each in waiting] == [4, 1, 2, 3]


def test_a_tenant_that_waits_at_the_front_has_not_paused():
    """Its next request is not the first of it to wait: the policy is not told that it came back."""
    told = []
    policy = Turns()
    policy.join = lambda sequence, head, tenants: told.append((sequence.serial, sorted(tenants)))
    waiting, made = (
        queue(max_requests=9, policy=policy),
        [sequence(serial, tenant="aabac"[serial]) for serial in range(5)],
    )
    waiting.join(made[0])
    waiting.hold(waiting.head)
    waiting.join(made[1])
    waiting.rejoin(made[2])
    for one in made[3:]:
        waiting.join(one)
    assert told == [(0, []), (4, ["a", "a", "b"])]
