"""The plan of a session: which workloads, in which order the peers are visited, and what is to be reached."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.peers.ratios import OURS
from services.cli.bench.lengths import Lengths
from services.cli.bench.named import SHAPES, named
from services.cli.bench.workload import Pace, Shape, Workload, generate

SEED = 3
RATES_PER_S = (1.0, 2.0, 4.0)
NEIGHBOURS = 2
"""So many peers are visited between two visits to Headway: each is next to one."""
QUICK_SECONDS = 4.0
_QUICK_LENGTHS = Lengths(kind="fixed", least=8, most=8)


@dataclass(frozen=True, slots=True)
class Trial:
    """One workload of a session."""

    name: str
    shape: Shape
    number: int
    open_for_s: float = 0.0
    """For how long requests arrive; 0: they wait for answers."""

    def workload(self, repeat: int) -> Workload:
        """Its requests. No two trials of a session, and no two repeats, have prompts in common."""
        return generate(self.shape, SEED * 1000 + self.number, repeat)


def trials(wanted: Sequence[str], *, quick: bool) -> list[Trial]:
    """The trials of these workloads; quick ones only show that everything works."""
    made: list[Trial] = []
    for name in SHAPES:
        if name not in wanted:
            continue
        rates = RATES_PER_S if SHAPES[name].pace.rate_per_s > 0 else (None,)
        for rate_per_s in rates[:1] if quick else rates:
            label = name if rate_per_s is None else f"{name} at {rate_per_s:g}/s"
            shape = quicker(named(name, rate_per_s)) if quick else named(name, rate_per_s)
            open_for_s = shape.num_requests / rate_per_s if rate_per_s else 0.0
            made.append(Trial(label, shape, 1 + len(made), open_for_s))
    return made


def quicker(shape: Shape) -> Shape:
    """The same kind of workload with a few short answers."""
    if shape.pace.rate_per_s > 0:
        return replace(shape.at_rate(shape.pace.rate_per_s, QUICK_SECONDS), output_lengths=_QUICK_LENGTHS)
    num_requests = 4 if shape.turns > 1 else min(shape.num_requests, 6)
    turns = min(shape.turns, 2)
    pace = Pace(concurrency=shape.pace.concurrency, users=shape.pace.users, think_s=shape.pace.think_s / 10)
    return replace(shape, num_requests=num_requests, turns=turns, pace=pace, output_lengths=_QUICK_LENGTHS)


def first_token() -> Workload:
    """One short request for one token."""
    shape = replace(named("W2"), num_requests=1, input_lengths=_QUICK_LENGTHS, output_lengths=_fixed(1))
    return generate(shape, SEED, 0)


def warm_up(*, quick: bool) -> Workload:
    """Requests that are not measured, as many at once as fill a batch, with prompts that no trial has."""
    shape = replace(named("W1"), num_requests=2 if quick else 16, output_lengths=_fixed(16))
    return generate(shape, SEED, 1)


def _fixed(count: int) -> Lengths:
    return Lengths(kind="fixed", least=count, most=count)


@dataclass(frozen=True, slots=True)
class Stop:
    """One visit that is due: to whom, in which round, the how-manyth of the session."""

    place: int
    round: int
    peer: str


def stops(peers: Sequence[str], repeats: int) -> list[Stop]:
    """Headway first, and again after every two peers; every other round takes the peers in the opposite order."""
    order = []
    for number in range(repeats):
        of_round = list(peers) if number % 2 == 0 else list(reversed(peers))
        for begin in range(0, max(len(of_round), 1), NEIGHBOURS):
            order += [(number, OURS), *((number, peer) for peer in of_round[begin : begin + NEIGHBOURS])]
    return [Stop(place, number, peer) for place, (number, peer) in enumerate(order)]
