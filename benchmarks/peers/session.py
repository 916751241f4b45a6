"""A session: the peers are installed, then visited in turn, and what they measured is in the journal at once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.peers import outcome
from benchmarks.peers.catalogue import Peer, Place
from benchmarks.peers.environment import NotInstalled
from benchmarks.peers.journal import Journal
from benchmarks.peers.launch import Launch
from benchmarks.peers.model_files import NotConverted
from benchmarks.peers.plan import Stop, Trial, stops
from benchmarks.peers.readings import Reading
from benchmarks.peers.visit import START, Visit
from services.cli.console import err, out

_SHOWN = 5  # numbers of a reading; the tables have all


@dataclass(frozen=True, slots=True)
class Session:
    """What is to be done. Headway is the first of the peers."""

    peers: Sequence[Peer]
    trials: Sequence[Trial]
    repeats: int
    quick: bool
    place: Place
    journal: Journal

    def run(self) -> None:
        """Installs all, then visits all; what the journal has already is not measured again."""
        out.print("the first time this takes many minutes: llama.cpp is built from source", style="dim")
        launches = {peer.name: self._prepared(peer) for peer in self.peers}
        due = stops([peer.name for peer in self.peers[1:]], self.repeats)
        for number, stop in enumerate(due, 1):
            out.print(f"[bold]visit {number} of {len(due)}: {stop.peer}[/], round {stop.round + 1} of {self.repeats}")
            self._visit(stop, launches)

    def _prepared(self, peer: Peer) -> Launch | str:
        """How the peer is started, or why it cannot be."""
        out.print(f"preparing {peer.name}: {peer.about}", style="dim", soft_wrap=True)
        try:
            return peer.prepare(self.place)
        except (NotInstalled, NotConverted) as error:
            return str(error)

    def _visit(self, stop: Stop, launches: Mapping[str, Launch | str]) -> None:
        done = {reading.workload for reading in self.journal.of_visit(stop.place)}
        left = [trial for trial in self.trials if trial.name not in done]
        launch = launches[stop.peer]
        if isinstance(launch, str):
            if START not in done:
                self._take(Reading(stop.round, stop.place, stop.peer, START, {}, launch))
        elif left or START not in done:
            logs = self.place.folder / "logs"
            logs.mkdir(parents=True, exist_ok=True)
            with err.status(stop.peer) as status, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

                def begin(what: str) -> None:
                    status.update(f"{stop.peer}: {what}")

                log = logs / f"{stop.place:02d}-{stop.peer}.log"
                runner.run(Visit(stop, launch, log, self.quick, begin, self._take).run(left))

    def _take(self, reading: Reading) -> None:
        self.journal.note(reading)
        values = [f"{name} {outcome.short(value)}" for name, value in reading.values.items()]
        said = "; ".join(values[:_SHOWN]) or "nothing"
        out.print(f"  {reading.workload}: {reading.problem or said}", markup=False, soft_wrap=True)
