"""`python -m benchmarks.peers`: installs the peers, measures them and Headway in alternation, and writes ratios."""

import hashlib
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter

from benchmarks import machine, report
from benchmarks.peers import outcome
from benchmarks.peers.catalogue import HEADWAY, PEERS, Place
from benchmarks.peers.environment import peers_dir
from benchmarks.peers.journal import Journal
from benchmarks.peers.plan import trials
from benchmarks.peers.ratios import cells
from benchmarks.peers.session import Session
from services.cli.bench.named import SHAPES
from services.cli.console import err, out
from services.runtime.lifecycle import ExitCode

NAME = "peers"
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())]
Flag = Annotated[bool, Parameter(negative=())]
app = App(
    name="benchmarks.peers",
    help="Measures Headway beside what people run on CPUs today, and writes benchmarks/results/peers.json.",
    result_action="return_value",
)


@app.default
def bench(
    *,
    peers: Names = (),
    workloads: Names = (),
    repeats: int = 3,
    quick: Flag = False,
    resume: Flag = False,
    list_: Annotated[bool, Parameter(name="--list", negative=())] = False,
    torch_index: str = "",
) -> int:
    """Measure the peers; the exit code is 0 whatever was measured, also where a peer could not be had.

    Args:
        peers: Those to measure beside Headway; all of them by default.
        workloads: Those to run; all of them by default.
        repeats: How often each peer is visited.
        quick: A few short requests that only show that each peer works: nothing is written.
        resume: Go on with a session that was cut short; it must have been asked for with the same words.
        list_: Only say which peers there are.
        torch_index: Where torch comes from, where the usual index would bring a build for GPUs.
    """
    by_name = {peer.name: peer for peer in PEERS}
    if list_:
        for peer in PEERS:
            out.print(f"{peer.name:<20}{peer.about}", soft_wrap=True)
        return 0
    wanted, work = peers or tuple(by_name), tuple(name.upper() for name in workloads) or tuple(SHAPES)
    if why := _why_not(wanted, work, repeats):
        err.print(why, soft_wrap=True)
        return ExitCode.BAD_SETTING
    signal.signal(signal.SIGTERM, _end)
    place = Place(peers_dir(), torch_index)
    plan = hashlib.sha256(repr((wanted, work, repeats, quick)).encode()).hexdigest()
    journal = Journal(place.folder / f"{'quick' if quick else 'session'}.jsonl", plan, resume=resume)
    chosen = [HEADWAY, *(by_name[name] for name in wanted)]
    before = machine.Pace.now()
    Session(chosen, trials(work, quick=quick), repeats, quick, place, journal).run()
    conclude(journal, {peer.name: peer.about for peer in chosen}, before, write=not quick)
    return 0


def _why_not(peers: Sequence[str], workloads: Sequence[str], repeats: int) -> str:
    """Why these cannot be measured; empty where they can."""
    for names, known in ((peers, [peer.name for peer in PEERS]), (workloads, list(SHAPES))):
        if unknown := [name for name in names if name not in known]:
            return f"nothing is called {unknown[0]!r}: there are {', '.join(known)}"
    return "" if repeats >= 1 else "repeats must be at least 1"


def conclude(journal: Journal, peers: dict[str, str], before: machine.Pace, *, write: bool) -> None:
    """Shows what was measured and what was not, and writes both."""
    measured = cells(journal.readings)
    outcome.show(measured, list(peers), out)
    lacking = outcome.not_measured(journal.readings)
    for what, why in lacking.items():
        out.print(f"not measured: {what}: {why}", style="red", markup=False, soft_wrap=True)
    if write:
        facts = machine.describe(before, machine.Pace.now()) | {"peers": peers, "not_measured": lacking}
        report.write(NAME, facts, outcome.rows(measured))
        out.print(f"written to benchmarks/results/{NAME}.json", style="dim", soft_wrap=True)


def _end(_number: int, _frame: Any) -> None:
    """The peer that runs is ended on the way out."""
    raise SystemExit(ExitCode.FORCED)


if __name__ == "__main__":
    sys.exit(app())
