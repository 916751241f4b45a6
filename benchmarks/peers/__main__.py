"""`python -m benchmarks.peers`: installs the peers, measures them and Headway in alternation, and writes ratios."""

import asyncio
import hashlib
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import uvloop
from cyclopts import App, Parameter

from benchmarks import machine, report
from benchmarks.peers import outcome
from benchmarks.peers.catalogue import HEADWAY, PEERS, Peer, Place
from benchmarks.peers.environment import NotInstalled, peers_dir
from benchmarks.peers.journal import Journal
from benchmarks.peers.launch import Launch
from benchmarks.peers.model_files import NotConverted
from benchmarks.peers.plan import Stop, Trial, stops, trials
from benchmarks.peers.ratios import cells
from benchmarks.peers.readings import Reading
from benchmarks.peers.visit import START, Visit
from services.cli.bench.named import SHAPES
from services.cli.console import err
from services.cli.console import out as console

NAME = "peers"
WRONG_USE = 2
app = App(
    name="benchmarks.peers",
    help="Measures Headway beside what people run on CPUs today, and writes benchmarks/results/peers.json.",
    result_action="return_value",
)


@app.default
def bench(
    *,
    peers: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    workloads: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    repeats: int = 3,
    quick: Annotated[bool, Parameter(negative=())] = False,
    resume: Annotated[bool, Parameter(negative=())] = False,
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
            console.print(f"{peer.name:<20}{peer.about}", soft_wrap=True)
        return 0
    wanted, work = peers or tuple(by_name), tuple(name.upper() for name in workloads) or tuple(SHAPES)
    if unknown := [*(name for name in wanted if name not in by_name), *(name for name in work if name not in SHAPES)]:
        known = ", ".join([*by_name, *SHAPES])
        err.print(f"nothing is called {unknown[0]!r}: there are {known}")
        return WRONG_USE
    place = Place(peers_dir(), torch_index)
    chosen = [HEADWAY, *(by_name[name] for name in wanted)]
    todo = trials(work, quick=quick)
    plan = hashlib.sha256(repr((wanted, work, repeats, quick)).encode()).hexdigest()
    journal = Journal(place.folder / f"{'quick' if quick else 'session'}.jsonl", plan, resume=resume)
    before = machine.Pace.now()
    measure(chosen, place, todo, repeats, quick=quick, journal=journal)
    _conclude(journal, [peer.name for peer in chosen], before, write=not quick)
    return 0


def measure(
    peers: Sequence[Peer], place: Place, todo: Sequence[Trial], repeats: int, *, quick: bool, journal: Journal
) -> None:
    """Installs all, then visits all."""
    console.print("the first time this takes many minutes: llama.cpp is built from source", style="dim")
    launches = {peer.name: prepared(peer, place) for peer in peers}
    due = stops([peer.name for peer in peers[1:]], repeats)
    for number, stop in enumerate(due, 1):
        console.print(f"[bold]visit {number} of {len(due)}: {stop.peer}[/], round {stop.round + 1} of {repeats}")
        visit(stop, launches, place, todo, quick=quick, journal=journal)


def prepared(peer: Peer, place: Place) -> Launch | str:
    """How the peer is started, or why it cannot be."""
    console.print(f"preparing {peer.name}: {peer.about}", style="dim", soft_wrap=True)
    try:
        return peer.prepare(place)
    except (NotInstalled, NotConverted) as error:
        console.print(f"  {error}", style="red", markup=False, soft_wrap=True)
        return str(error)


def visit(
    stop: Stop,
    launches: Mapping[str, Launch | str],
    place: Place,
    todo: Sequence[Trial],
    *,
    quick: bool,
    journal: Journal,
) -> None:
    """One visit; what a session cut short has measured in it is not measured again."""

    def take(reading: Reading) -> None:
        journal.note(reading)
        said = reading.problem or ", ".join(f"{name} {value:.3g}" for name, value in list(reading.values.items())[:5])
        console.print(f"  {reading.workload}: {said}", markup=False, soft_wrap=True)

    done = {reading.workload for reading in journal.of_visit(stop.place)}
    launch = launches[stop.peer]
    if isinstance(launch, str):
        if START not in done:
            take(Reading(stop.round, stop.place, stop.peer, START, {}, launch))
        return
    left = [trial for trial in todo if trial.name not in done]
    if not left and START in done:
        return
    logs = place.folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{stop.place:02d}-{stop.peer}.log"
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Visit(stop, launch, log, quick, take).run(left))


def _conclude(journal: Journal, peers: Sequence[str], before: machine.Pace, *, write: bool) -> None:
    measured = cells(journal.readings)
    outcome.show(measured, peers, console)
    lacking = outcome.not_measured(journal.readings)
    for what, why in lacking.items():
        console.print(f"not measured: {what}: {why}", style="red", markup=False, soft_wrap=True)
    facts = machine.describe(before, machine.Pace.now()) | {"not_measured": lacking}
    if write:
        report.write(NAME, facts, outcome.rows(measured))
        console.print(f"written to benchmarks/results/{NAME}.json", style="dim", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(app())
