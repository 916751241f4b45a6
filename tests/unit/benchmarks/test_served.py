"""The server that is measured."""

import os

import pytest

from benchmarks.served import cpu_s, serving

STAT = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 {user} {system} 0 0 20 0 5 0 100 1000 200"


def test_cpu_time_is_user_and_system():
    """Whatever the process is called."""
    ticks = os.sysconf("SC_CLK_TCK")
    assert cpu_s(STAT.format(user=3 * ticks, system=ticks)) == 4


def test_a_server_that_cannot_start_is_said():
    """With its own words, not after a long wait."""
    with pytest.raises(RuntimeError, match="token_budget"), serving({"HEADWAY_SCHEDULER_TOKEN_BUDGET": "0"}):
        pytest.fail("it started")
