"""Two runs side by side."""

from rich.console import Console

from services.cli.demo_batching.comparison import agreement, figures, markdown, table
from tests.unit.cli.demo_batching.runs import measured

STATIC = measured("static")
CONTINUOUS = measured("continuous", first_s=(0.5, 1.0), end_s=5.0, useful=50, held=50)


def test_factors_say_how_much_better_continuous_batching_is():
    """Twice the utilization and half the time are both a factor of two."""
    factors = {row.name: row.factor for row in figures(STATIC, CONTINUOUS, price_per_hour=3.6)}
    assert factors == {
        "slot utilization": 2.0,
        "TTFT p50": 2.0,
        "TTFT p99": 2.0,
        "output": 2.0,
        "wall time": 2.0,
        "cost of a million output tokens, at 3.6 an hour": 2.0,
    }


def test_what_is_worse_has_a_factor_below_one():
    """It is shown, not hidden."""
    assert all(row.factor == 0.5 for row in figures(CONTINUOUS, STATIC, price_per_hour=None))


def test_there_is_no_cost_without_a_price():
    """Nothing is assumed."""
    assert not any("cost" in row.name for row in figures(STATIC, CONTINUOUS, price_per_hour=None))


def test_the_markdown_table_can_be_pasted():
    """A heading, a rule, and one line for each figure."""
    lines = markdown(figures(STATIC, CONTINUOUS, price_per_hour=None)).splitlines()
    assert lines[0] == "|  | static | continuous | better by |"
    assert lines[1] == "| --- | ---: | ---: | ---: |"
    assert lines[2] == "| slot utilization | 50.0% | 100.0% | 2.00x |"
    assert lines[-1] == "| wall time | 10.0 s | 5.0 s | 2.00x |"


def test_the_terminal_shows_the_same():
    """Cell for cell."""
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table(figures(STATIC, CONTINUOUS, price_per_hour=None)))
    assert capture.get().splitlines()[1].split() == ["slot", "utilization", "50.0%", "100.0%", "2.00x"]


def test_answers_are_compared_token_for_token():
    """One that differs is not counted."""
    assert agreement(STATIC, CONTINUOUS) == "2 of 2 answers are the same, token for token"
    other = measured("continuous", answers={0: [1] * 20, 1: [2] * 19 + [3]})
    assert agreement(STATIC, other) == "1 of 2 answers are the same, token for token"
