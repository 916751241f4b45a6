"""What a reader of a stream measures."""

from services.cli.timing import StreamTiming, summary


def test_times_are_from_the_request_and_between_tokens():
    """TTFT, mean and longest gap, and the rate follow from when tokens came."""
    timing = StreamTiming(started_s=100.0)
    for at_s, count in ((100.5, 1), (100.7, 1), (101.5, 2), (101.6, 0)):
        timing.note(count, at_s)
    assert round(timing.first_s, 3) == 0.5
    assert round(timing.longest_gap_s, 3) == 0.8
    assert round(timing.mean_gap_s, 3) == round(1.0 / 3, 3)
    assert round(timing.tokens_per_s, 3) == round(4 / 1.5, 3)
    assert summary(timing) == "4 tokens, TTFT 500 ms, TBT 333 ms, 2.7 tokens/s"


def test_a_stream_without_tokens_has_no_times():
    """Nothing is made up for an answer that did not come."""
    assert summary(StreamTiming()) == "0 tokens, TTFT -, TBT -, - tokens/s"
