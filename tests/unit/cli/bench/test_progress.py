import io

from rich.console import Console

from services.cli.bench.progress import ProgressBar
from services.cli.bench.workload import Pace, Request, Workload
from tests.unit.cli.bench.records import record

WORK = Workload(
    name="W9",
    pace=Pace(concurrency=1),
    seed=0,
    repeat=0,
    requests=tuple(Request(index=n, prompt=b"a", output_tokens=1) for n in range(4)),
)


def shown(*, terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    with ProgressBar(console) as bar:
        tell = bar.announce(WORK, "warm-up")
        for status in ("ok", "failed", "ok"):
            tell(record(status=status))
    return console.file.getvalue()


def test_a_person_sees_how_far_it_is_and_what_failed():
    """Three of four have ended, one of them badly."""
    said = shown(terminal=True)
    assert "W9 warm-up" in said
    assert "3/4" in said
    assert "1 failed" in said


def test_a_pipe_sees_nothing():
    """A log is no place for a bar."""
    assert shown(terminal=False).strip() == ""
