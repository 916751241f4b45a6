from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver, EngineLost
from services.wire.execution import Sampling
from services.wire.scheduling import FinishCause, RejectReason
from tests.simulation.strict_engine import POISON, StrictEngine, expected_tokens

ENDLESS = Sampling(temperature=0.0, ignore_eos=True)


def driver(**settings: int) -> Driver:
    made = Driver(CoreSettings(**settings), StrictEngine(step_us=1000))
    made.start()
    return made


def test_time_is_what_the_steps_take():
    """Three tokens are three steps of a millisecond, with no sleeping."""
    d = driver()
    answer = d.submit([1, 2, 3], max_tokens=3, sampling=ENDLESS)
    d.run()
    assert answer.token_times_us == [1000, 2000, 3000]
    assert answer.ended_us == d.now_us == 3000
    assert answer.token_ids == expected_tokens([1, 2, 3], 3, sampling=ENDLESS)
    assert answer.max_gap_us == 1000


def test_a_step_time_can_be_given():
    """A function of plan and result."""
    d = Driver(CoreSettings(), StrictEngine(), step_us=lambda plan, _: 7 if len(plan.chunk_slots) else 5)
    d.start()
    answer = d.submit([1], max_tokens=3, sampling=ENDLESS)
    d.run()
    assert answer.token_times_us == [7, 12, 17]


def test_at_depth_two_steps_follow_each_other_on_one_executor():
    """Once a step has been timed, the plan behind a short one leaves early; its step starts when the first has ended."""
    d = driver(pipeline_depth=2)
    answer = d.submit([1], max_tokens=4, sampling=ENDLESS)
    d.run()
    assert answer.token_times_us == [1000, 2000, 3000, 4000]
    assert [record.at_us for record in d.records[:3]] == [0, 1000, 1000]


def test_moments_come_in_order_and_the_clock_can_be_stopped():
    """`run(until_us)` leaves what is later for the next call."""
    d = driver()
    seen: list[str] = []
    d.at(2000, lambda: seen.append("b"))
    d.at(1000, lambda: seen.append("a"))
    d.at(2000, lambda: seen.append("c"))
    d.run(until_us=1500)
    assert (seen, d.now_us) == (["a"], 1500)
    d.run()
    assert seen == ["a", "b", "c"]


def test_something_can_be_done_just_before_a_step():
    """A forced preemption before the third plan makes that plan admit the sequence again."""
    d = driver(pipeline_depth=1)
    answer = d.submit([1] * 20, max_tokens=5, sampling=ENDLESS)
    d.before_step(3, lambda: d.preempt(answer))
    d.run()
    assert [record.admitted for record in d.records] == [1, 0, 1, 0, 0]
    assert answer.token_ids == expected_tokens([1] * 20, 5, sampling=ENDLESS)


def test_an_engine_that_dies_is_replaced_after_its_restart_time():
    """The driver loses the executor and brings the next one up."""
    d = Driver(CoreSettings(), StrictEngine(), restart_us=500_000)
    d.start()
    answer = d.submit([POISON, 1], max_tokens=9, sampling=ENDLESS)
    d.run()
    assert answer.rejected.reason is RejectReason.POISONOUS
    assert d.num_sessions == 4
    assert d.now_us >= 1_500_000
    assert issubclass(EngineLost, Exception)


def test_a_result_of_a_lost_executor_never_arrives():
    """Its tokens are drawn again by the next one."""
    d = driver()
    answer = d.submit([1], max_tokens=3, sampling=ENDLESS)
    d.at(500, d.lose_executor)
    d.at(9_000, d.executor_up)
    d.run()
    assert answer.token_times_us == [10_000, 11_000, 12_000]


def test_stops_and_cancels_can_be_scheduled():
    """At a moment, like submits."""
    d = driver()
    stopped = d.submit([1], max_tokens=50, sampling=ENDLESS)
    cancelled = d.submit([2], max_tokens=50, sampling=ENDLESS, at_us=1500)
    d.stop(stopped, 2, at_us=5500)
    d.cancel(cancelled, at_us=6500)
    d.run()
    assert (stopped.finished.cause, stopped.ended_us) == (FinishCause.STOPPED, 5500)
    assert (cancelled.finished.cause, cancelled.ended_us) == (FinishCause.CANCELLED, 6500)
    assert cancelled.submitted_us == 1500


def test_deadlines_are_kept_with_nothing_else_to_happen():
    """The driver ticks when the core wants it to."""
    d = Driver(CoreSettings(), StrictEngine())
    answer = None
    d.start()
    d.lose_executor()
    answer = d.submit([1], time_left_us=3000)
    d.run()
    assert (answer.rejected.reason, answer.ended_us) == (RejectReason.DEADLINE, 3000)
