"""A router's settings."""

import dataclasses

import pytest

from services.router.settings import RouterSettings
from services.runtime.lifecycle import BadSetting


def test_the_defaults_are_valid_and_local():
    """A router with no setting at all listens on loopback only."""
    settings = RouterSettings()
    assert settings.listen == "127.0.0.1:50051"
    assert not settings.allow_public


@pytest.mark.parametrize(
    "field", [field.name for field in dataclasses.fields(RouterSettings) if field.type in (int, float)]
)
def test_a_number_must_be_positive(field):
    """Zero, negative and NaN are refused by name for each number."""
    for value in (0, -1, float("nan")):
        with pytest.raises(BadSetting, match=field):
            RouterSettings(**{field: value})


@pytest.mark.parametrize("schedulers", [(), ("",), ("a:1", "a:1")])
def test_schedulers_must_be_addresses(schedulers):
    """No scheduler, an empty address and one named twice are refused."""
    with pytest.raises(BadSetting, match="schedulers"):
        RouterSettings(schedulers=schedulers)


def test_a_prompt_must_fit_into_a_message():
    """A prompt limit that no message could reach is a mistake, and so is a request larger than what is read."""
    with pytest.raises(BadSetting, match="max_prompt_bytes"):
        RouterSettings(max_prompt_bytes=100, max_request_bytes=100)
    with pytest.raises(BadSetting, match="max_message_bytes"):
        RouterSettings(max_request_bytes=2**22, max_message_bytes=2**21)


def test_all_kinds_of_calls_together_leave_room_for_health():
    """Limits that would let other calls take every place are a mistake."""
    with pytest.raises(BadSetting, match="room for health"):
        RouterSettings(max_live_requests=8192)


def test_every_field_is_described():
    """The help of each flag comes from the docstring."""
    for field in dataclasses.fields(RouterSettings):
        assert f"        {field.name}: " in (RouterSettings.__doc__ or ""), field.name


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:50051", "example.org:1"])
def test_a_public_address_needs_consent(listen):
    """An address beyond this machine is refused unless that is asked for."""
    with pytest.raises(BadSetting, match="allow_public"):
        RouterSettings(listen=listen)
    assert RouterSettings(listen=listen, allow_public=True).listen == listen
