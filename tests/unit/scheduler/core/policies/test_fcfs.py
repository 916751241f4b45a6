from services.scheduler.core.policies.fcfs import FirstCome
from tests.unit.scheduler.core.helpers import sequence


def test_nobody_is_before_anybody_but_by_arrival():
    """Priorities, tenants, weights and deadlines count for nothing."""
    policy = FirstCome()
    one, other = sequence(1), sequence(2, priority=-5, tenant="x", tenant_weight=9.0, time_left_us=1)
    assert policy.rank(one) == policy.rank(other) == policy.turn(other, 0) == policy.price(other) == 0
    assert policy.hopeless_us(other) == -1
