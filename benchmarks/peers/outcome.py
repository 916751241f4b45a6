"""The outcome of a session: its cells as rows for the result file and as tables for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.peers.ratios import OURS, Cell, Spread
from benchmarks.peers.readings import Reading
from benchmarks.report import Row, rounded

FACTOR = 1.5
"""How many times better than the best peer Headway is to be, in each of these cells."""
_TTFT, _TPOT = ("TTFT p50, ms", "TTFT p99, ms"), ("TPOT p50, ms", "TPOT p99, ms")
PROMISED = {
    "W1": ("output, tokens/s",),
    "W2": (_TTFT[0], _TPOT[0]),
    "W3 at 2/s": (*_TTFT, *_TPOT),
    "W3 at 4/s": (*_TTFT, _TPOT[0]),
    "W4": ("output, tokens/s", _TTFT[0]),
}


def rows(cells: Sequence[Cell]) -> list[Row]:
    """Each cell's value, then how many times better Headway's is; the goal is on the comparison with the best peer."""
    made = []
    for cell in cells:
        name, unit = _split(cell.metric)
        made += _spread(f"{cell.workload} {name}, {cell.peer}", cell.value, unit)
        if cell.ratio is not None:
            made += _spread(f"{cell.workload} {name}, {OURS} against {cell.peer}", cell.ratio, "times better")
    return made + best_rows(cells)


def best_rows(cells: Sequence[Cell]) -> list[Row]:
    """Headway against the peer that comes nearest, in each cell where a factor is promised."""
    made = []
    for workload, metrics in PROMISED.items():
        for metric in metrics:
            found = [
                (cell.ratio.median, cell.peer)
                for cell in cells
                if (cell.workload, cell.metric) == (workload, metric) and cell.ratio is not None
            ]
            if found:
                ratio, peer = min(found)
                what = f"{workload} {_split(metric)[0]}, {OURS} against the best peer, {peer}"
                made.append(Row(what, ratio, "times better", FACTOR, at_least=True))
    return made


def _split(metric: str) -> tuple[str, str]:
    name, _, unit = metric.rpartition(", ")
    return name, unit


def _spread(metric: str, spread: Spread, unit: str) -> list[Row]:
    made = [Row(metric, spread.median, unit)]
    if len(spread.values) > 1:
        made += [Row(f"{metric}, least", spread.least, unit), Row(f"{metric}, most", spread.most, unit)]
    return made


def not_measured(readings: Sequence[Reading]) -> dict[str, str]:
    """What has no value, and why: by peer and workload."""
    return {
        f"{reading.peer}, {reading.workload}, round {reading.round + 1}": reading.problem
        for reading in readings
        if reading.problem
    }


def show(cells: Sequence[Cell], peers: Sequence[str], console: Console) -> None:
    """A table for each workload: a line for each metric, a column for each peer, and how many times better Headway is."""
    for workload in dict.fromkeys(cell.workload for cell in cells):
        of_workload = {(cell.metric, cell.peer): cell for cell in cells if cell.workload == workload}
        shown = [peer for peer in peers if any(key[1] == peer for key in of_workload)]
        table = Table(title=workload, title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.add_column("", overflow="fold")
        for peer in shown:
            table.add_column(peer, justify="right", overflow="fold")
        for metric in dict.fromkeys(key[0] for key in of_workload):
            table.add_row(metric, *(in_words(of_workload.get((metric, peer))) for peer in shown))
        console.print(table)
        console.print()


def in_words(cell: Cell | None) -> str:
    """`374 (341-380) 1.52x (1.48-1.55)`: median and, of several, least and most; then the ratio likewise."""
    if cell is None:
        return "-"
    return " ".join([_numbers(cell.value), *([_numbers(cell.ratio, "x")] if cell.ratio else [])])


def _numbers(spread: Spread, suffix: str = "") -> str:
    said = f"{short(spread.median)}{suffix}"
    return f"{said} ({short(spread.least)}-{short(spread.most)})" if len(spread.values) > 1 else said


def short(value: float) -> str:
    """For people: three digits, but no digit before the point is lost."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{rounded(float(f'{value:.3g}')):g}"
