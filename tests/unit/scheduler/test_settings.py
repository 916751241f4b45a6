"""Scheduler settings: the core's part is the same, and what cannot work is refused."""

import dataclasses

import pytest

from services.runtime.lifecycle import BadSetting
from services.scheduler.core.settings import CoreSettings
from services.scheduler.settings import SchedulerSettings


def test_the_cores_settings_are_flattened_with_their_defaults():
    """Each field of the core's settings is a field of the process's, with the same default."""
    assert SchedulerSettings().core() == CoreSettings()


def test_values_reach_the_core():
    """What is set for the process is what the core gets."""
    changed = {"max_slots": 3, "token_budget": 7, "prefix_cache": False, "pipeline_depth": 2}
    assert dataclasses.replace(SchedulerSettings(), **changed).core() == CoreSettings(**changed)


@pytest.mark.parametrize(
    "bad",
    [
        {"max_slots": 0},
        {"pipeline_depth": 3},
        {"listen": "0.0.0.0:1"},
        {"listen": "nonsense"},
        {"executor_heartbeat_timeout_s": 0.0},
        {"executor_heartbeat_timeout_s": 6.0},
        {"router_backlog_bytes": 0},
        {"drain_timeout_s": -1.0},
    ],
)
def test_what_cannot_work_is_refused(bad):
    """A bad value ends in BadSetting, whichever part it belongs to."""
    with pytest.raises(BadSetting):
        SchedulerSettings(**bad)
