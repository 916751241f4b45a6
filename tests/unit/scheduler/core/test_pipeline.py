from types import SimpleNamespace

import pytest

from services.scheduler.core.flight import Flight
from services.scheduler.core.pipeline import SEND_AHEAD_US, Pipeline


def flight(sent_us, predicted_us):
    return Flight(1, 1, sent_us, 0, 1, None, None, None, (), predicted_us=predicted_us)


def pipeline(*flights, last_step_us=0, prompt_step_us=0, has_room=True):
    """Of a session with these plans unanswered; `prompt_step_us`: what a step full of prompts takes, if there are any."""
    planner = SimpleNamespace(has_prefill=prompt_step_us > 0, has_room=has_room)
    progress = SimpleNamespace(last_step_us=last_step_us, full_step_us=prompt_step_us)
    return Pipeline(SimpleNamespace(flights=list(flights)), planner, progress, depth=2)


def test_an_idle_executor_is_sent_a_plan_at_once():
    """Whatever is known of steps, and though somebody has to give way."""
    assert pipeline(has_room=False).is_time(0)


@pytest.mark.parametrize(
    ("flights", "last_step_us", "end_us"),
    [
        ([flight(10_000, 5_000)], 9_000, 15_000),  # sent to an idle executor
        ([flight(10_000, 5_000)], 13_000, 18_000),  # begun when the one before it had ended
        ([flight(10_000, 5_000), flight(12_000, 7_000)], 0, 22_000),  # behind each other
    ],
)
def test_a_plan_leaves_a_little_before_the_executor_is_done(flights, last_step_us, end_us):
    """2 ms before the predicted end of what is unanswered, and not earlier; that moment is when to ask again."""
    line = pipeline(*flights, last_step_us=last_step_us)
    assert not line.is_time(end_us - SEND_AHEAD_US - 1)
    assert line.due_us == end_us - SEND_AHEAD_US
    assert line.is_time(end_us - SEND_AHEAD_US)
    assert line.due_us is None


@pytest.mark.parametrize(
    "line",
    [
        pipeline(flight(10_000, 26_000)),  # behind a long step
        pipeline(flight(10_000, 5_000), prompt_step_us=26_000),  # for a long step
        pipeline(flight(10_000, 0)),  # behind one of unknown length
        pipeline(flight(10_000, 5_000), has_room=False),  # somebody would have to give way
    ],
)
def test_a_plan_waits_for_the_result(line):
    """Newcomers are not to wait for two long steps, nor anybody to give way for blocks that the result may free."""
    assert not line.is_time(99_000)
    assert line.due_us is None


def test_a_pipeline_is_full_when_as_many_plans_are_unanswered_as_may_be():
    """Two here."""
    assert not pipeline(flight(0, 1)).is_full
    assert pipeline(flight(0, 1), flight(0, 1)).is_full
