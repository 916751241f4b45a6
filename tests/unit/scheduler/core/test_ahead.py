import random

from services.scheduler.core.ahead import ByTenant, InOneOrder
from tests.unit.scheduler.core.helpers import sequence


def test_in_one_order_those_of_a_lower_rank_are_before():
    """Of equal ranks all that wait are; whoever leaves is no more."""
    ahead = InOneOrder()
    made = [sequence(serial, prompt=10 * serial) for serial in (1, 2, 3)]
    for one, rank in zip(made, (5, 9, 5), strict=True):
        ahead.join(one, rank)
    newcomer = sequence(4)
    assert [ahead.of(newcomer, rank) for rank in (4, 5, 6, 9)] == [(0, 0), (2, 40), (2, 40), (3, 60)]
    ahead.leave(made[0])
    assert ahead.of(newcomer, 9) == (2, 50)
    assert (len(ahead), ahead.num_tokens) == (2, 50)


def test_where_tenants_take_turns_each_other_one_has_a_turn_before():
    """Of the mean length of what the others have waiting; of its own, what is of a lower rank."""
    ahead = ByTenant()
    assert ahead.of(sequence(9, tenant="a"), 0) == (0, 0)
    for serial, (tenant, rank) in enumerate((("a", 1), ("a", 2), ("b", 0), ("b", 0), ("c", 7))):
        ahead.join(sequence(serial, prompt=10 * (1 + serial), tenant=tenant), rank)
    assert ahead.of(sequence(9, tenant="a"), 1) == (1 + 2, 10 + 2 * 40)
    assert ahead.of(sequence(9, tenant="d"), 1) == (3, 150 * 3 // 5)


def test_nothing_is_left_when_all_have_left():
    """Whatever the order in which they come and go."""
    rng = random.Random(1)
    for ahead in (InOneOrder(), ByTenant()):
        inside = []
        for serial in range(500):
            one = sequence(serial, prompt=rng.randrange(1, 9), tenant=rng.choice("abc"))
            ahead.join(one, rng.randrange(50))
            inside.append(one)
            if rng.random() < 0.5:
                ahead.leave(inside.pop(rng.randrange(len(inside))))
            assert len(ahead) == len(inside)
        for one in inside:
            ahead.leave(one)
        assert ahead.of(sequence(999, tenant="a"), 99) == (0, 0)
