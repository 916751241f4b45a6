from services.scheduler.core.latency_class import LatencyClass
from services.scheduler.core.policies.fair import Fair
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence, State
from tests.unit.scheduler.core.helpers import sequence

TOKEN = 1_000_000


def seated(running: Running, serial: int, **fields: object) -> Sequence:
    made = sequence(serial, **fields)
    running.seat(made, 0)
    return made


def test_prompts_count_once_and_drawn_tokens_twice():
    """20 tokens of a prompt that were computed, and 3 drawn."""
    policy, running = Fair(), Running(4, 16)
    one = seated(running, 1, tenant="a")
    policy.admit(one, 20)
    running.columns.known[one.slot] += 3
    policy.settle(running)
    policy.settle(running)
    assert policy.service("a") == (20 + 2 * 3) * TOKEN


def test_what_is_drawn_between_two_choices_is_not_lost_when_one_leaves():
    """It is counted when it leaves its slot."""
    policy, running = Fair(), Running(4, 16)
    one = seated(running, 1, tenant="a")
    running.columns.known[one.slot] += 5
    running.unseat(one, State.ENDED)
    policy.release(one)
    policy.release(one)
    assert policy.service("a") == 10 * TOKEN


def test_a_weight_is_a_share():
    """With a weight of 2 the same work counts half; a weight of nothing is no free ride."""
    policy = Fair()
    policy.admit(sequence(1, tenant="a", tenant_weight=2.0), 20)
    policy.admit(sequence(2, tenant="b", tenant_weight=0.0), 1)
    assert policy.service("a") == 10 * TOKEN
    assert policy.service("b") > policy.service("a")


def test_who_comes_back_is_lifted_to_those_who_wait():
    """Nobody saves up service in a pause; whoever has had more keeps it."""
    policy = Fair()
    waiting = sequence(1, tenant="a")
    policy.admit(waiting, 500)
    policy.join(sequence(2, tenant="b"), waiting, ())
    assert policy.service("b") == 500 * TOKEN
    policy.admit(sequence(3, tenant="c"), 700)
    policy.join(sequence(4, tenant="c"), waiting, ())
    assert policy.service("c") == 700 * TOKEN


def test_when_nobody_waits_the_newest_admitted_is_the_level():
    """As if it still waited."""
    policy = Fair()
    policy.admit(sequence(1, tenant="a"), 500)
    policy.join(sequence(2, tenant="b"), None, ())
    assert policy.service("b") == 500 * TOKEN


def test_the_tenant_with_the_least_service_is_next():
    """Whatever came first."""
    policy = Fair()
    policy.admit(sequence(1, tenant="a"), 10)
    assert policy.turn(sequence(2, tenant="a"), 0) > policy.turn(sequence(3, tenant="b"), 0)
    assert policy.price(sequence(4, prompt=30)) == 30 * TOKEN


def test_tenants_that_are_gone_cost_little_memory():
    """Those that would be lifted anyway are forgotten."""
    policy = Fair()
    for number in range(10_000):
        one = sequence(number, tenant=f"t{number}", prompt=1)
        policy.join(one, None, ())
        policy.admit(one, 1)
    assert len(policy._counters) < 2000


def test_a_class_has_a_weight_too():
    """The work of a class of weight 4 counts a quarter."""
    policy, one = Fair(), sequence(1, tenant="a")
    one.latency_class = LatencyClass("slow", weight=4.0)
    policy.admit(one, 20)
    assert policy.service("a") == 5 * TOKEN


def test_who_runs_or_waits_is_not_forgotten():
    """Its service counts when it comes back, though it is below the level; at the front, or of spare work, too."""
    policy, running = Fair(), Running(4, 16)
    waiting = WaitingQueue(max_requests=9999, max_tokens=10**6, policy=policy)
    runs = seated(running, 1, tenant="runs")
    front, spare = sequence(2, tenant="front"), sequence(3, tenant="spare")
    spare.latency_class = LatencyClass("batch", is_spare=True)
    waiting.join(spare)
    waiting.rejoin(front)
    policy.settle(running)
    for one in (runs, front, spare):
        policy.admit(one, 10)
    for number in range(10, 2010):
        one = sequence(number, tenant=f"t{number}", prompt=1)
        policy.admit(one, 1000)
        waiting.join(one)
    assert [policy.service(name) for name in ("runs", "front", "spare")] == [10 * TOKEN] * 3
    waiting.check_integrity()


def test_one_may_be_passed_until_others_are_ahead_by_what_it_costs():
    """20 tokens of a prompt and 7 of the 8 drawn ones are computed; those of its own tenant may always pass it."""
    policy = Fair()
    blocked, other = sequence(1, tenant="a", prompt=20, max_tokens=8), sequence(2, tenant="b")
    policy.admit(other, 2 * 27)
    assert policy.may_pass(other, blocked)
    policy.admit(other, 1)
    assert not policy.may_pass(other, blocked)
    assert policy.may_pass(sequence(3, tenant="a"), blocked)
