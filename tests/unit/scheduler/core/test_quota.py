from collections import Counter

from services.scheduler.core.quota import Quotas
from tests.unit.scheduler.core.helpers import sequence, submit


def test_live_requests_are_counted_by_tenant():
    """Zero means no quota."""
    quotas, made = Quotas(), sequence(tenant="a")
    quotas.enter(made)
    assert not quotas.can_enter(submit(tenant="a", tenant_max_requests=1))
    assert quotas.can_enter(submit(tenant="a"))
    assert quotas.can_enter(submit(tenant="b", tenant_max_requests=1))
    quotas.leave(made)
    assert quotas.can_enter(submit(tenant="a", tenant_max_requests=1))


def test_blocks_are_charged_and_discharged():
    """Up to the quota, not over it."""
    quotas, made = Quotas(), sequence(tenant="a", tenant_max_blocks=5)
    quotas.charge(made, 3)
    assert quotas.can_charge(made, 2)
    assert not quotas.can_charge(made, 3)
    quotas.discharge(made, 3)
    assert quotas.can_charge(made, 5)


def test_a_tenant_that_is_gone_costs_no_memory():
    """Its counters vanish."""
    quotas, made = Quotas(), sequence(tenant="a")
    quotas.enter(made)
    quotas.charge(made, 3)
    quotas.discharge(made, 3)
    quotas.leave(made)
    quotas.check_integrity(Counter(), Counter())
    assert not quotas._requests
    assert not quotas._blocks
