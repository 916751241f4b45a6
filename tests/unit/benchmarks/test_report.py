"""The report: what a row says, and the format that other programs read."""

import io
import json

import pytest
from rich.console import Console

from benchmarks.report import Row, rounded, show, write

MACHINE = {"cpu": "A [fast] one", "load_average": {"before": 0.1, "after": 0.2}}
ROWS = [Row("steps", 2000, "steps"), Row("cost", 99.98765, "us", 100), Row("bytes", 121, "bytes", 120)]


@pytest.mark.parametrize(("value", "goal", "holds"), [(100, 100, True), (100.000001, 100, False), (5, None, None)])
def test_a_goal_is_an_upper_bound(value, goal, holds):
    """A row holds up to its goal, on the value as measured; where nothing is promised it says neither."""
    assert Row("cost", value, "us", goal).holds is holds


@pytest.mark.parametrize(("value", "holds"), [(100, True), (99, False), (101, True)])
def test_a_goal_can_be_a_lower_bound(value, holds):
    """A speed that is to be reached holds from its goal on."""
    row = Row("speed", value, "tokens/s", 100, at_least=True)
    assert row.holds is holds
    assert row.as_dict() == {"metric": "speed", "value": value, "unit": "tokens/s", "goal": 100, "holds": holds}


def test_a_report_is_written_in_the_promised_format(tmp_path):
    """The file has the machine and the rows, each with the same five keys."""
    path = write("scheduler", MACHINE, ROWS, tmp_path / "results")
    assert path == tmp_path / "results" / "scheduler.json"
    assert json.loads(path.read_text()) == {
        "machine": MACHINE,
        "rows": [
            {"metric": "steps", "value": 2000, "unit": "steps", "goal": None, "holds": None},
            {"metric": "cost", "value": 99.988, "unit": "us", "goal": 100, "holds": True},
            {"metric": "bytes", "value": 121, "unit": "bytes", "goal": 120, "holds": False},
        ],
    }


def test_a_second_report_replaces_the_first(tmp_path):
    """Nothing of an older run is left, nor any part file."""
    write("stream", MACHINE, ROWS, tmp_path)
    path = write("stream", {}, ROWS[:1], tmp_path)
    assert len(json.loads(path.read_text())["rows"]) == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("value", "shown"), [(1234567, 1234567), (0.000123456, 0.00012346), (98765.4321, 98765), (2.0, 2)]
)
def test_a_value_keeps_five_digits(value, shown):
    """Fractions are cut to what means something; whole numbers are not."""
    assert rounded(value) == shown


def test_the_table_shows_each_row_with_its_verdict():
    """Value, unit and goal stand on the metric's line; the machine stands below, as it is written."""
    out = io.StringIO()
    show("scheduler", MACHINE, ROWS, Console(file=out, width=100))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "steps 2,000 steps" in lines
    assert "cost 99.988 us <= 100 holds" in lines
    assert "bytes 121 bytes <= 120 missed" in lines
    assert "cpu: A [fast] one" in lines
