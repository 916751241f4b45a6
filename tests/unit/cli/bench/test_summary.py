import json
import math

import pytest

from services.cli.bench.cost import Cost
from services.cli.bench.slo import Slo
from services.cli.bench.stats import Estimate
from services.cli.bench.summary import summarize
from tests.unit.cli.bench.records import record, run, run_of_ttfts


def test_every_request_is_counted():
    """Refused, timed out and failed ones beside those that ended well."""
    lost = [
        record(n, messages=(), status=status) for n, status in enumerate(("refused", "timeout", "failed", "failed"), 1)
    ]
    summary = summarize([run(record(), *lost)], None)
    assert summary.counts == {"ok": 1, "refused": 1, "timeout": 1, "failed": 2}
    assert (summary.num_requests, summary.failed_share) == (5, 0.8)


def test_rates_are_over_the_whole_run_and_what_was_answered():
    """Two answers of 2 tokens to 10 in 10 s, and one that failed and counts for nothing."""
    summary = summarize([run(record(0), record(1), record(2, status="failed"))], None)
    assert {name: rate.value for name, rate in summary.rates.items()} == {
        "requests_per_s": 0.2,
        "output_tokens_per_s": 0.4,
        "input_tokens_per_s": 2.0,
    }
    assert summary.rates["requests_per_s"] == Estimate(0.2)  # one run tells nothing of how runs differ


def test_goodput_is_what_met_the_slo():
    """One of two requests was fast enough: a tenth of a request a second."""
    summary = summarize([run_of_ttfts(0.5, 3.0)], Slo.of("ttft_p50=1s"))
    assert summary.rates["goodput_per_s"].value == 0.1
    assert summary.judgement.holds


def test_latencies_are_of_what_was_answered():
    """The percentiles of 1, 2, 3, 4; the failure is in the counts."""
    summary = summarize([run_of_ttfts(1.0, 2.0, 3.0, 4.0, failed=1)], None)
    values = {name: found.value for name, found in summary.latencies["ttft"].items()}
    assert values == {"mean": 2.5, "p50": 2.0, "p90": 4.0, "p95": 4.0, "p99": 4.0, "max": 4.0}
    assert summary.latencies["ttft"]["max"].low <= 4.0


def test_repeats_give_intervals_of_rates_and_latencies():
    """Medians of 1 and 3: their mean is 2."""
    summary = summarize([run_of_ttfts(1.0), run_of_ttfts(3.0)], None)
    assert summary.latencies["ttft"]["p50"].value == 2.0
    assert summary.rates["requests_per_s"].low == summary.rates["requests_per_s"].high == 0.1
    assert "2 repeats" in summary.interval


def test_a_metric_that_nobody_has_is_left_out():
    """Answers of one token have no time between tokens."""
    summary = summarize([run(record(messages=((1.0, 1),)))], None)
    assert set(summary.latencies) == {"ttft", "ttft_sent", "e2e", "e2e_sent"}


def test_nothing_answered_is_a_summary_too():
    """Counts, rates of zero, no latencies."""
    summary = summarize([run_of_ttfts(failed=3)], Slo.of("ttft_p99=1s"))
    assert (summary.latencies, summary.failed_share, summary.judgement.holds) == ({}, 1.0, False)
    assert summary.rates["requests_per_s"].value == 0.0
    json.dumps(summary.as_dict(), allow_nan=False)


def test_turns_and_prefix_hits_of_conversations():
    """The median TTFT of each turn, counted from one, and the share of its prompts that was cached."""
    said = [
        record(0, conversation=0, turn=0, messages=((1.0, 1),), cached_tokens=0),
        record(1, conversation=0, turn=1, messages=((0.25, 1),), cached_tokens=8),
        record(2, conversation=1, turn=0, messages=((2.0, 1),), cached_tokens=2),
        record(3, conversation=1, turn=1, messages=((0.5, 1),), cached_tokens=None),
    ]
    summary = summarize([run(*said)], None)
    assert [(each.turn, each.ttft_p50_s, each.cached_share) for each in summary.turns] == [
        (1, 1.0, 0.1),
        (2, 0.25, 0.8),
    ]
    assert summary.cached_share == pytest.approx(10 / 30)


@pytest.mark.parametrize(
    ("fields", "sent_s", "warns"),
    [
        ({}, 0.0, False),
        ({"loop_lag_p99_s": 0.011}, 0.0, True),
        ({"cpu_share": 0.95}, 0.0, True),
        ({}, 0.021, True),
    ],
)
def test_a_generator_that_could_not_keep_up_says_so(fields, sent_s, warns):
    """By its loop's lag, its CPU, or by sending late."""
    made = run(record(sent_s=sent_s))
    for name, value in fields.items():
        setattr(made, name, value)
    warnings = summarize([made], None).warnings
    assert any("the load generator itself was a bottleneck" in words for words in warnings) == warns


def test_answers_that_are_shorter_than_asked_are_told():
    """A target whose lengths are not forced does other work than the rest."""
    summary = summarize([run(record(asked_tokens=9))], None)
    assert (summary.short_answers, summary.warnings[0].split(":")[0]) == (1, "1 answers are shorter than asked")


@pytest.mark.parametrize(
    ("shares_prompts", "turn", "cached", "warns"),
    [(False, 0, 3, True), (False, 0, 2, False), (True, 0, 9, False), (False, 1, 9, False)],
)
def test_prompts_that_the_server_has_seen_before_are_told(shares_prompts, turn, cached, warns):
    """More than a quarter cached of prompts that begin like no other: the same seed was sent before."""
    made = run(record(turn=turn, cached_tokens=cached))
    warnings = summarize([made], None, shares_prompts=shares_prompts).warnings
    assert any("choose another --seed" in words for words in warnings) == warns


def test_the_summary_is_json_without_infinities():
    """What failures made endless is null; the cost is beside it."""
    found = summarize([run_of_ttfts(0.1, failed=1)], Slo.of("ttft_p99=1s")).as_dict(
        Cost(per_request=1.0, per_million_input_tokens=2.0, per_million_output_tokens=3.0)
    )
    text = json.loads(json.dumps(found, allow_nan=False))
    assert text["slo"]["limits"][0]["measured"]["value"] is None
    assert text["cost"]["per_request"] == 1.0
    assert math.isclose(text["latencies_s"]["ttft"]["p50"]["value"], 0.1)
