from services.scheduler.core.latency_class import PRESETS, read_classes
from services.scheduler.core.policies.fcfs import FirstCome
from tests.unit.scheduler.core.helpers import sequence


def test_nobody_is_before_anybody_but_by_arrival():
    """Priorities, tenants, weights and deadlines count for nothing."""
    policy = FirstCome()
    one, other = sequence(1), sequence(2, priority=-5, tenant="x", tenant_weight=9.0, time_left_us=1)
    assert policy.rank(one) == policy.rank(other) == policy.turn(other, policy.rank(other))
    assert policy.price(other) == 0
    assert policy.hopeless_us(other) == -1
    other.arrived_us = one.arrived_us + 1
    assert policy.rank(one) < policy.rank(other)


def test_who_is_promised_a_first_token_sooner_is_sooner():
    """A document gives way to a chat that comes within the 4.5 s between their targets, and to none after."""
    policy, classes = FirstCome(), read_classes(PRESETS, "")
    document, chat = sequence(1), sequence(2)
    document.latency_class, chat.latency_class = classes["document"], classes["chat"]
    chat.arrived_us = 4_499_999
    assert policy.rank(chat) < policy.rank(document)
    chat.arrived_us = 4_500_001
    assert policy.rank(chat) > policy.rank(document)
