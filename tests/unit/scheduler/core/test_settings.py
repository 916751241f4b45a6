import dataclasses

import pytest

from services.scheduler.core.settings import CoreSettings


def test_settings_have_the_documented_defaults():
    """64 slots, 512 tokens a step, 1,024 waiting, a minute of grace."""
    settings = CoreSettings()
    assert (settings.max_slots, settings.token_budget, settings.max_waiting_requests) == (64, 512, 1024)
    assert settings.executor_grace_us == 60_000_000


@pytest.mark.parametrize("field", ["max_slots", "token_budget", "pipeline_depth", "max_tokens_cap"])
def test_a_setting_below_one_is_refused_by_name(field: str):
    """The error names the setting."""
    with pytest.raises(ValueError, match=field):
        CoreSettings(**{field: 0})


def test_bad_grace_and_depth_are_refused():
    """A negative grace and a depth that is not built are no settings."""
    with pytest.raises(ValueError, match="executor_grace_us"):
        CoreSettings(executor_grace_us=-1)
    with pytest.raises(ValueError, match="tbt_target_us"):
        CoreSettings(tbt_target_us=-1)
    with pytest.raises(ValueError, match="tbt_target_us must be at most 2147483647"):
        CoreSettings(tbt_target_us=2**31)
    with pytest.raises(ValueError, match="pipeline_depth"):
        CoreSettings(pipeline_depth=3)


def test_an_unknown_word_is_refused_with_those_there_are():
    """The error names both."""
    with pytest.raises(ValueError, match="batching must be one of continuous, static, not 'dynamic'"):
        CoreSettings(batching="dynamic")
    with pytest.raises(ValueError, match="policy must be one of fcfs, priority, fair, deadline, not 'lottery'"):
        CoreSettings(policy="lottery")


def test_settings_cannot_be_changed():
    """Configuration is never mutated."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        CoreSettings().max_slots = 1


def test_latency_classes_that_cannot_be_read_are_refused():
    """So is a default that is none of them."""
    with pytest.raises(ValueError, match="latency_classes: 'chat' is neither"):
        CoreSettings(latency_classes="chat")
    with pytest.raises(ValueError, match="default_latency_class: 'x' is none"):
        CoreSettings(default_latency_class="x")
