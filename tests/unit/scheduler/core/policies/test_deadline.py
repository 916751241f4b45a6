from services.scheduler.core.policies.deadline import PATIENCE_US, LeastSlack
from services.scheduler.core.sequence import Sequence
from tests.unit.scheduler.core.helpers import sequence


def newcomer(policy: LeastSlack, deadline_us: int, prompt: int = 100, arrived_us: int = 0) -> Sequence:
    made = sequence(1, prompt=prompt)
    made.arrived_us, made.deadline_us = arrived_us, deadline_us
    made.hopeless_us = policy.hopeless_us(made)
    return made


def policy() -> LeastSlack:
    """A token takes 10 us."""
    return LeastSlack(lambda one: 10 * one.num_stored)


def test_who_has_to_start_soonest_is_next():
    """A later deadline with a long prompt before an earlier one with a short prompt."""
    order = policy()
    assert order.rank(newcomer(order, 5000, prompt=400)) < order.rank(newcomer(order, 4000, prompt=100))


def test_hopeless_is_who_cannot_have_a_first_token_in_time():
    """1 ms of prompt and 5 ms left: from the moment after 4 ms; never without a deadline."""
    order = policy()
    assert order.hopeless_us(newcomer(order, 5000)) == 4001
    assert order.hopeless_us(newcomer(order, 500)) == 0
    assert order.hopeless_us(newcomer(order, -1)) == -1


def test_who_has_no_deadline_is_not_passed_for_ever():
    """It has a minute, as it were."""
    order = policy()
    patient = newcomer(order, -1, arrived_us=7)
    assert order.rank(patient) == PATIENCE_US + 7
    assert order.rank(newcomer(order, PATIENCE_US + 2000, arrived_us=PATIENCE_US)) > order.rank(patient)
