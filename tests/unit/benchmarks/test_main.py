"""`python -m benchmarks`."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.report import Row

ROOT = Path(__file__).parents[3]


@pytest.fixture
def ran(monkeypatch):
    """The commands that were run apart; the first one fails."""
    commands = []

    def note(words, *, check):
        assert not check
        commands.append(words)
        return subprocess.CompletedProcess(words, 3 if len(commands) == 1 else 0)

    monkeypatch.setattr(subprocess, "run", note)
    return commands


def test_each_listed_benchmark_is_there():
    """`--list` names every one, and each can be imported and run."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert listed == list(command.BENCHMARKS) == ["scheduler", "engine", "kernels", "threads", "stream", "batching"]
    assert all(callable(importlib.import_module(f"benchmarks.{name}").run) for name in listed)


def test_an_unknown_name_is_refused(capsys, ran):
    """Before anything runs, with the names that there are."""
    assert command.bench("engine", "nonsense") == 2
    said = capsys.readouterr().err
    assert "nonsense" in said
    assert "scheduler, engine, kernels, threads, stream, batching" in " ".join(said.split())
    assert ran == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), ["scheduler", "engine", "kernels", "threads", "stream", "batching"]),
        (("stream", "engine"), ["stream", "engine"]),
    ],
)
def test_several_run_apart_and_a_failure_is_told(ran, names, expected):
    """All of them, or those named in their order; one that fails stops none, and sets the exit code."""
    assert command.bench(*names) == 3
    assert [words[-1] for words in ran] == expected


def test_one_runs_here_and_is_written_down(monkeypatch, capsys):
    """Its rows are shown and written, and a missed goal is no failure."""
    written = {}
    monkeypatch.setattr(
        command.report, "write", lambda name, machine, rows: written.update({name: (set(machine), rows)})
    )
    monkeypatch.setattr("benchmarks.scheduler.run", lambda: [Row("cost", 2, "us", 1)])
    assert command.bench("scheduler") == 0
    machine, rows = written["scheduler"]
    assert {"cpu", "cores", "memory_gib", "python", "calibration_us", "load_average"} <= machine
    assert rows == [Row("cost", 2, "us", 1)]
    assert "missed" in capsys.readouterr().out
