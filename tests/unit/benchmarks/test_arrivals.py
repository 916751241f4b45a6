"""Arrivals, at moments that are given."""

import pytest

from benchmarks.arrivals import Arrivals, mean_gap_s, num_steps


def arrivals(*events, started_s=10.0):
    stream = Arrivals(started_s)
    for at_s, num_tokens in events:
        stream.note(num_tokens, at_s)
    return stream


def test_a_stream_is_measured_from_its_request():
    """First token, longest gap between messages, mean gap between tokens."""
    stream = arrivals((10.5, 1), (11.0, 1), (13.0, 4), (13.5, 1))
    assert stream.first_s == 0.5
    assert stream.longest_gap_s == 2.0
    assert stream.mean_gap_s == 0.5
    assert stream.num_tokens == 7


def test_a_message_without_tokens_is_no_arrival():
    """The one that only starts or ends an answer is not its first token."""
    assert arrivals((10.1, 0), (10.5, 2), (10.9, 0)).at_s == [10.5]


def test_a_window_is_open_at_its_begin():
    """What came at its begin belongs to the time before, so that neighbouring windows share nothing."""
    inside = arrivals((11.0, 1), (12.0, 2), (13.0, 3), (14.0, 4)).within(11.0, 13.0)
    assert (inside.at_s, inside.counts, inside.started_s) == ([12.0, 13.0], [2, 3], 10.0)


def test_one_message_has_no_gap():
    """The longest gap is 0 then."""
    assert arrivals((11.0, 3)).longest_gap_s == 0


def test_streams_are_summed_up():
    """The mean over streams counts each alike, and the number of steps is what most of them saw."""
    streams = [arrivals((11, 1), (12, 1), (13, 1)), arrivals((11, 1), (14, 1), (17, 1)), arrivals((11, 1), (13, 1))]
    assert mean_gap_s(streams) == pytest.approx(2.0)
    assert num_steps(streams) == 3
