"""Two plans in flight: the executor never waits, and who arrives waits for little more than the running step."""

from itertools import pairwise

import pytest

from tests.simulation.paced_engine import PacedEngine
from tests.simulation.runs import ENDLESS, driver, tokens

STEP_US = 9_200
"""Of four decoding streams; the context adds a few microseconds."""


def decoding(depth):
    """A driver with four streams, and the first of them."""
    d = driver(PacedEngine(fixed_us=9_000), pipeline_depth=depth)
    first, *_ = [d.submit(tokens(20, seed), max_tokens=120, sampling=ENDLESS) for seed in range(4)]
    return d, first


def steps_until_first_token(depth, wait_us):
    """Of a newcomer that arrives `wait_us` after a step has begun; the running step counts."""
    d, stream = decoding(depth)
    d.run()
    began_us = stream.token_times_us[60]
    d, stream = decoding(depth)
    newcomer = d.submit(tokens(30, 99), max_tokens=3, sampling=ENDLESS, at_us=began_us + wait_us)
    d.run()
    return sum(began_us < time_us <= newcomer.token_times_us[0] for time_us in stream.token_times_us)


@pytest.mark.parametrize("wait_us", [100, 3_000, STEP_US - 2_500])
def test_an_arrival_joins_the_next_step_as_without_overlap(wait_us):
    """The plan behind a running step leaves 2 ms before its end: newcomers until then are in it."""
    assert [steps_until_first_token(depth, wait_us) for depth in (1, 2)] == [2, 2]


def test_an_arrival_in_the_last_2_ms_waits_a_step_longer():
    """What overlap costs at most."""
    assert [steps_until_first_token(depth, STEP_US - 1_000) for depth in (1, 2)] == [2, 3]


def test_the_executor_never_waits_for_a_plan():
    """Each plan is there before the one in front of it has ended, and none much earlier."""
    d, stream = decoding(2)
    d.run()
    planned_us = [record.at_us for record in d.records][-40:-2]
    ended_us = stream.token_times_us[-39:-1]
    ahead_us = [end - plan for plan, end in zip(planned_us, ended_us, strict=False)]
    assert all(1_900 < ahead % STEP_US < 2_100 for ahead in ahead_us), ahead_us
    assert all(abs(b - a - STEP_US) < 60 for a, b in pairwise(ended_us))
