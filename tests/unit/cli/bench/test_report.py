import json

import pytest

from services.cli.bench.options import ReportOptions
from services.cli.bench.report import Report
from services.cli.bench.session import Measured
from services.cli.bench.slo import Slo
from services.cli.bench.summary import summarize
from services.cli.bench.sweep import Point, Sweep
from tests.unit.cli.bench.records import record, run, run_of_ttfts

TARGET = {"address": "127.0.0.1:1", "model": "<tiny>"}


def report(runs=(), slo=None, swept=None, **options):
    measured = Measured(
        target=TARGET, workload={"name": "W1"}, slo=None if slo is None else Slo.of(slo), runs=list(runs), swept=swept
    )
    return Report.of(measured, ReportOptions(**options))


def sweep_of(slo, *points):
    made = [
        Point(
            share=rate / 10, rate_per_s=rate, runs=[ran], summary=summarize([ran], None if slo is None else Slo.of(slo))
        )
        for rate, ran in points
    ]
    return Sweep(capacity_per_s=10.0, points=made)


@pytest.mark.parametrize(
    ("ran", "slo", "code"),
    [
        (run_of_ttfts(0.1), None, 0),
        (run_of_ttfts(0.1), "ttft_p99=1s", 0),
        (run_of_ttfts(2.0), "ttft_p99=1s", 1),
        (run_of_ttfts(0.1, failed=1), "ttft_p50=1s", 1),
        (run_of_ttfts(0.1, failed=1), None, 0),
        (run_of_ttfts(failed=2), None, 1),
    ],
)
def test_the_exit_code_is_the_slos_or_whether_anything_was_answered(ran, slo, code, capsys):
    """Failures alone are a result; nothing but failures is none."""
    assert report([ran], slo).publish() == code
    capsys.readouterr()


def test_a_table_tells_counts_rates_latencies_and_verdict(capsys):
    """And the warnings, on standard error."""
    report([run(record(sent_s=0.5), record(1, status="failed", error="gone [1]"))], "ttft_p50=2s").publish()
    said = capsys.readouterr()
    for words in ("W1 against <tiny> at 127.0.0.1:1", "2 requests: 1 ok, 1 failed", "1 x failed: gone [1]", "requests/s: 0.1",
                  "ttft_p50 <= 2000 ms: holds, measured 1000 ms [1000 ms, never]", "intervals: 95 %, bootstrap"):  # fmt: skip
        assert words in said.out
    assert "load generator itself was a bottleneck" in said.err


def test_a_cost_is_told_where_the_slo_holds(capsys, tmp_path):
    """36 an hour, 10 s, 2 requests: 0.05 each; in the file too."""
    made = report([run_of_ttfts(0.1, 0.2)], "ttft_p99=1s", price_per_hour=36.0, json=tmp_path / "r.json")
    made.publish()
    assert "cost: 0.05 per request" in capsys.readouterr().out
    assert json.loads((tmp_path / "r.json").read_text())["summary"]["cost"]["per_request"] == pytest.approx(0.05)


def test_a_sweep_has_its_cost_at_the_highest_load_that_holds(capsys, tmp_path):
    """2 requests/s hold, 4 do not: 2 requests in 10 s are paid, not 3."""
    slo = "ttft_p99=1s"
    swept = sweep_of(slo, (1.0, run_of_ttfts(0.1)), (2.0, run_of_ttfts(0.1, 0.1)), (4.0, run_of_ttfts(0.1, 0.1, 5.0)))
    made = report(slo=slo, swept=swept, price_per_hour=36.0, json=tmp_path / "r.json", html=tmp_path / "r.html")
    assert made.publish() == 0
    said = capsys.readouterr().out
    assert "HOLDS up to 2 requests/s, 20% of capacity" in said
    assert "cost: 0.05 per request" in said
    summary = json.loads((tmp_path / "r.json").read_text())["summary"]
    assert (summary["slo_holds_up_to_per_s"], len(summary["points"])) == (2.0, 3)
    assert "TTFT against load" in (tmp_path / "r.html").read_text()


def test_a_sweep_that_never_holds_fails(capsys):
    """And has no cost."""
    slo = "ttft_p99=1s"
    assert report(slo=slo, swept=sweep_of(slo, (1.0, run_of_ttfts(5.0))), price_per_hour=1.0).publish() == 1
    said = capsys.readouterr().out
    assert "FAILS at 10% of capacity already" in said
    assert "no cost: the SLO does not hold" in said


def test_a_sweep_without_an_slo_is_only_a_sweep(capsys):
    """Exit code 0; a price gets the reason why it has no cost."""
    assert report(swept=sweep_of(None, (1.0, run_of_ttfts(5.0))), price_per_hour=1.0).publish() == 0
    said = capsys.readouterr().out
    assert "capacity: 10 requests/s" in said
    assert "no cost without an SLO" in said


def test_a_page_escapes_what_strangers_said(tmp_path, capsys):
    """A model's name and an error are text."""
    report([run(record(), record(1, status="failed", error="<script>"))], html=tmp_path / "r.html").publish()
    capsys.readouterr()
    html = (tmp_path / "r.html").read_text()
    assert "&lt;tiny&gt;" in html
    assert "<script" not in html
