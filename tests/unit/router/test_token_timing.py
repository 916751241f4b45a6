"""Token timing."""

import pytest

from services.router.token_timing import TokenTiming


def test_times_are_measured_from_arrival_and_between_batches():
    """TTFT is from arrival; the mean gap counts tokens, the longest gap is between batches."""
    timing = TokenTiming(arrived_at=10.0)
    timing.tokens(1, 10.5)
    timing.tokens(2, 10.75)
    timing.tokens(1, 11.5)
    told = timing.to_proto(12.0, queued_s=0.1, prefill_s=0.2)
    assert told.time_to_first_token_s == 0.5
    assert told.time_between_tokens_mean_s == pytest.approx(1.0 / 3)
    assert told.time_between_tokens_max_s == 0.75
    assert told.total_s == 2.0
    assert (told.queued_s, told.prefill_s) == (0.1, 0.2)


@pytest.mark.parametrize("count", [0, 1])
def test_without_two_tokens_there_is_no_gap(count):
    """No token and one token divide by nothing."""
    timing = TokenTiming(arrived_at=1.0)
    if count:
        timing.tokens(1, 2.0)
    told = timing.to_proto(3.0)
    assert told.time_to_first_token_s == count
    assert told.time_between_tokens_mean_s == told.time_between_tokens_max_s == 0
