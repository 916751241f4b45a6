"""Static against continuous batching, as rows."""

from benchmarks import batching
from services.cli.demo_batching.comparison import Figure


def test_each_figure_becomes_both_values_and_their_factor():
    """Named for the workload, so that two of them can be told apart."""
    rows = batching.rows_of("W1", [Figure("wall time", 30.0, 20.0, "s", 1)])
    assert [(row.metric, row.value, row.unit) for row in rows] == [
        ("W1, static: wall time", 30.0, "s"),
        ("W1, continuous: wall time", 20.0, "s"),
        ("W1, better by: wall time", 1.5, "x"),
    ]


def test_all_at_once_and_a_poisson_run_are_measured(monkeypatch):
    """64 requests at once, then 120 in a minute, each with all figures."""
    sent = []

    def compared(workload, *, fake):
        assert not fake
        sent.append((len(workload.requests), round(workload.requests[-1].arrival_s)))
        return [Figure("wall time", 2.0, 1.0, "s", 1)]

    monkeypatch.setattr(batching, "compared", compared)
    monkeypatch.setattr(batching, "ensure_default_model", lambda: None)
    assert len(batching.run()) == 6
    assert sent == [(64, 0), (120, 60)]
