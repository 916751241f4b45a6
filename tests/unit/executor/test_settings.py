"""Executor settings: what cannot work is refused, and test hooks need their switch."""

import pytest

from services.executor.settings import ExecutorSettings
from services.runtime.lifecycle import BadSetting


@pytest.mark.parametrize(
    "bad",
    [
        {"max_slots": 0},
        {"max_step_tokens": 0},
        {"kv_memory_mb": 0},
        {"simulated_num_blocks": 0},
        {"kv_pool_tokens": -1},
        {"threads": -1},
        {"simulated_step_fixed_us": -1},
        {"simulated_step_per_context_token_ns": -1},
    ],
)
def test_a_size_that_cannot_work_is_refused(bad):
    """A senseless number names itself in the refusal."""
    with pytest.raises(BadSetting):
        ExecutorSettings(**bad)


def test_the_kill_hook_is_armed_only_where_hooks_are_allowed(monkeypatch):
    """Without HEADWAY_TEST_HOOKS=1 a kill token does nothing."""
    settings = ExecutorSettings(test_kill_token=7)
    monkeypatch.delenv("HEADWAY_TEST_HOOKS", raising=False)
    assert settings.armed_kill_token == -1
    monkeypatch.setenv("HEADWAY_TEST_HOOKS", "1")
    assert settings.armed_kill_token == 7
