"""`python -m benchmarks [NAME ...]`: runs the benchmarks named, or all of them, each in a process of its own."""

import importlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from benchmarks import machine, report

BENCHMARKS = {
    "scheduler": "CPU time per step of the scheduler's core, and the bytes of a plan",
    "engine": "the default model on this machine: decode steps and prefill",
    "kernels": "packed linears of every kind and attention, beside the machine's roofs",
    "threads": "two compute threads against one, with and without a busy neighbour",
    "stream": "64 streams through the whole stack with a simulated executor",
    "batching": "static against continuous batching on the default model: minutes",
}
WRONG_USE = 2

app = App(name="benchmarks", help="Measures Headway and writes benchmarks/results.", result_action="return_value")


@app.default
def bench(*names: str, list_: Annotated[bool, Parameter(name="--list", negative=())] = False) -> int:
    """Run benchmarks; the exit code is 0 whatever they measured.

    Args:
        names: Those to run; all of them by default.
        list_: Only say which there are.
    """
    console = Console(highlight=False)
    if list_:
        for name, about in BENCHMARKS.items():
            console.print(f"{name:<12}{about}", soft_wrap=True)
        return 0
    if unknown := [name for name in names if name not in BENCHMARKS]:
        Console(stderr=True).print(f"no benchmark is called {unknown[0]!r}: there are {', '.join(BENCHMARKS)}")
        return WRONG_USE
    if len(names) == 1:
        return run(names[0], console)
    return run_apart(names or tuple(BENCHMARKS))


def run(name: str, console: Console) -> int:
    """Runs one benchmark here."""
    before = machine.Pace.now()
    rows: list[report.Row] = importlib.import_module(f"benchmarks.{name}").run()
    facts = machine.describe(before, machine.Pace.now())
    report.show(name, facts, rows, console)
    report.write(name, facts, rows)
    console.print(f"  written to benchmarks/results/{name}.json\n", style="dim", soft_wrap=True)
    return 0


def run_apart(names: Sequence[str]) -> int:
    """Runs each in a fresh process, so that none finds the heap, threads or caches of another."""
    codes = [subprocess.run([sys.executable, "-m", "benchmarks", name], check=False).returncode for name in names]
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(app())
