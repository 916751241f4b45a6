"""A report: the rows that a benchmark measured, as a table for people and as JSON for machines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from services.runtime.files import write_whole

RESULTS = Path(__file__).parent / "results"
_DIGITS = 5  # of a printed or written value; more would be noise
_IN_WORDS = {None: "", True: "[green]holds", False: "[red]missed"}


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number."""

    metric: str
    value: float
    unit: str
    goal: float | None = None
    """The value is to be at most this; None: nothing is promised."""
    at_least: bool = False
    """The goal is a lower bound instead."""

    @property
    def holds(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def as_dict(self) -> dict[str, Any]:
        value = rounded(self.value)
        return {"metric": self.metric, "value": value, "unit": self.unit, "goal": self.goal, "holds": self.holds}


def rounded(value: float) -> float:
    """The value to five digits; whole numbers as they are."""
    return value if value == int(value) else float(f"{value:.{_DIGITS}g}")


def write(name: str, machine: Mapping[str, Any], rows: Sequence[Row], folder: Path = RESULTS) -> Path:
    """Writes `<name>.json` into `folder`, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    report = {"machine": dict(machine), "rows": [row.as_dict() for row in rows]}
    write_whole(path, json.dumps(report, indent=1) + "\n")
    return path


def show(name: str, machine: Mapping[str, Any], rows: Sequence[Row], console: Console) -> None:
    """Prints the rows, and below them what they were measured on."""
    table = Table(title=f"benchmark {name}", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("metric", overflow="fold")
    for heading in ("value", "unit", "goal", ""):
        table.add_column(heading, justify="left" if heading == "unit" else "right", no_wrap=True)
    for row in rows:
        goal = "" if row.goal is None else f"{'>=' if row.at_least else '<='} {row.goal:,g}"
        table.add_row(row.metric, f"{rounded(row.value):,}", row.unit, goal, _IN_WORDS[row.holds])
    console.print(table)
    for fact, value in machine.items():
        console.print(f"  {fact}: {value}", style="dim", markup=False, soft_wrap=True)
