import math

import pytest

from services.cli.bench.metrics import METRICS, late, of_all, of_answered
from tests.unit.cli.bench.records import record

# Due at 1.0, sent at 1.5; four tokens in three messages at 2.0, 2.3 and 3.2.
LATE = record(intended_s=1.0, sent_s=1.5, messages=((2.0, 1), (2.3, 2), (3.2, 1)))


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("ttft", [1.0]),
        ("ttft_sent", [0.5]),
        ("tpot", [0.4]),  # 1.2 s for the 3 tokens after the first message
        ("itl_message", [0.3, 0.9]),
        ("itl_token", [0.3, 0.0, 0.9]),
        ("e2e", [2.2]),
        ("e2e_sent", [1.7]),
    ],
)
def test_each_metric_of_a_late_request(metric, values):
    """A request that the generator sent late still waited from when it was to be sent."""
    assert METRICS[metric](LATE) == pytest.approx(values)
    assert late(LATE) == [0.5]


def test_tokens_of_the_first_message_do_not_share_in_the_time_after_it():
    """Three tokens at once, then two: 0.6 s for two, and four gaps, of which three are nothing."""
    burst = record(messages=((1.0, 3), (1.6, 2)))
    assert METRICS["tpot"](burst) == pytest.approx([0.3])
    assert METRICS["itl_token"](burst) == pytest.approx([0.0, 0.0, 0.6, 0.0])


def test_one_message_has_no_time_after_it():
    """Neither TPOT nor a gap between messages; the request leaves those statistics."""
    single = record(messages=((1.0, 1),))
    assert [METRICS[name](single) for name in ("tpot", "itl_message", "itl_token")] == [[], [], []]
    assert METRICS["e2e"](single) == [1.0]


def test_messages_whose_tokens_are_not_told_have_no_time_per_token():
    """Only the sum is known: TPOT is made of it, per-token gaps are not."""
    untold = record(messages=((1.0, 1), (3.0, 1)), counts_told=False, output_tokens=5)
    assert METRICS["tpot"](untold) == [0.5]
    assert METRICS["itl_token"](untold) == []


def test_failures_are_left_out_of_latencies_and_endless_for_an_slo():
    """A server that drops half its requests does not look fast."""
    records = [LATE, record(1, status="refused", messages=()), record(2, status="failed")]
    assert of_answered("ttft", records) == [[1.0]]
    assert of_all("ttft", records) == [[1.0], [math.inf], [math.inf]]
