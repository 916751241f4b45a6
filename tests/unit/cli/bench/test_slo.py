import pytest

from services.cli.bench.slo import PRESETS, Slo
from services.runtime.lifecycle import BadSetting
from tests.unit.cli.bench.records import record, run, run_of_ttfts


def test_limits_are_read_with_their_units():
    """Milliseconds and seconds, decimals in both sides, means; tbt is the gap between messages, as vLLM's itl is."""
    limits = Slo.of("ttft_p99=500ms,tbt_p99.9=0.05s,e2e_mean=2s,itl_p50=1.5ms,itl_token_p50=1ms").limits
    assert [(each.metric, each.percent, each.limit_s) for each in limits] == [
        ("ttft", 99.0, 0.5),
        ("itl_message", 99.9, 0.05),
        ("e2e", None, 2.0),
        ("itl_message", 50.0, 0.0015),
        ("itl_token", 50.0, 0.001),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "ttft", "ttft_p99", "ttft_p99=500", "ttft_p99<500ms", "ttft_p0=1s", "ttft_p101=1s", "ttft=1s", "x_p99=1s", "ttft_p99=1s,",
     "ttft_p99=-1s", "ttft_p99=1ms2"],
)  # fmt: skip
def test_bad_syntax_is_refused(text):
    """A limit that is not understood is not ignored."""
    with pytest.raises(BadSetting):
        Slo.of(text)


def test_the_presets_are_mlperfs():
    """Llama 3.1 8B: 2000 ms and 100 ms for servers, 500 ms and 30 ms for conversations, at the 99th percentile."""
    limits = {name: [(each.said, each.limit_s) for each in Slo.of(name).limits] for name in PRESETS}
    assert limits == {
        "llama3.1-8b-server": [("ttft_p99", 2.0), ("tpot_p99", 0.1)],
        "llama3.1-8b-interactive": [("ttft_p99", 0.5), ("tpot_p99", 0.03)],
    }


def test_it_holds_up_to_the_limit_itself():
    """At most: equal is kept."""
    runs = [run_of_ttfts(0.1, 0.2, 0.5)]
    assert Slo.of("ttft_p99=500ms").judge(runs).holds
    assert not Slo.of("ttft_p99=499ms").judge(runs).holds
    assert Slo.of("ttft_p50=200ms").judge(runs).holds


def test_one_limit_that_fails_fails_them_all():
    """And the words say which."""
    judgement = Slo.of("ttft_p99=1s,tpot_p50=900ms").judge([run_of_ttfts(0.1, 0.2)])
    assert [verdict.holds for verdict in judgement.verdicts] == [True, False]
    lines = judgement.lines()
    assert lines[0] == "SLO ttft_p99=1s,tpot_p50=900ms: FAILS"
    assert "ttft_p99 <= 1000 ms: holds, measured 200 ms [" in lines[1]
    assert "tpot_p50 <= 900 ms: fails, measured 1000 ms [1000 ms, 1000 ms]" in lines[2]


def test_failures_count_as_endless():
    """One of 100 is within the 99th percentile and the 1 %; two are not, however fast the rest was."""
    slo = Slo.of("ttft_p99=1s")
    assert slo.judge([run_of_ttfts(*[0.1] * 99, failed=1)]).holds
    judgement = slo.judge([run_of_ttfts(*[0.1] * 98, failed=2)])
    assert not judgement.holds
    assert "measured never" in judgement.lines()[1]
    assert "2.0% of the requests failed" in judgement.lines()[2]


def test_many_failures_fail_even_a_median():
    """With more than 1 % failures nothing holds."""
    judgement = Slo.of("ttft_p50=1s").judge([run_of_ttfts(*[0.1] * 9, failed=1)])
    assert judgement.verdicts[0].holds
    assert not judgement.holds


def test_a_limit_on_what_nobody_has_fails():
    """One token an answer: there is no time between tokens that could be short."""
    judgement = Slo.of("tbt_p99=1s").judge([run(record(messages=((1.0, 1),)))])
    assert not judgement.holds
    assert "no request has such a time" in judgement.lines()[1]


def test_an_interval_that_crosses_the_limit_is_told():
    """Medians of 0.4, 0.5 and 0.6 over repeats hold at 0.55, and could as well not."""
    runs = [run_of_ttfts(median) for median in (0.4, 0.5, 0.6)]
    judgement = Slo.of("ttft_p50=550ms").judge(runs)
    assert judgement.holds
    assert "more --repeats would tell" in judgement.lines()[1]
    assert judgement.as_dict()["limits"][0]["certain"] is False
    assert Slo.of("ttft_p50=900ms").judge(runs).verdicts[0].is_certain


def test_goodput_asks_each_request_alone():
    """By its own TTFT, its own mean or percentile of gaps; a failed one is none, one without such a time is."""
    slo = Slo.of("ttft_p99=1s,tbt_p50=0.5s")
    assert slo.met_by(record(messages=((1.0, 1), (1.5, 1), (2.0, 1), (9.0, 1))))  # the median gap is 0.5
    assert not slo.met_by(record(messages=((1.1, 1), (1.2, 1))))
    assert not slo.met_by(record(messages=((1.0, 1), (1.6, 1))))
    assert slo.met_by(record(messages=((1.0, 1),)))
    assert not slo.met_by(record(messages=((0.1, 1),), status="failed"))
    assert not Slo.of("tbt_mean=2s").met_by(record(messages=((1.0, 1), (1.5, 1), (9.0, 1))))
