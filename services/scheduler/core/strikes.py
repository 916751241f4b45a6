"""Strikes: which sequence may be the one that kills executors.

A sequence is a suspect of a loss when the unanswered plan computed tokens of it that no executor had ever computed. A
poisonous one cannot get past the token that kills, so it is a suspect each time; an innocent one grows past it and is
cleared. With two strikes it runs alone until then; the third convicts.
"""

from collections.abc import Iterable, Iterator

from services.scheduler.core.flight import Flight
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence

CONVICTED = 3


def suspects(flights: Iterable[Flight], running: Running) -> dict[int, Sequence]:
    """Those to strike for the loss of the executor with these plans unanswered, by serial number."""
    found: dict[int, Sequence] = {}
    for flight in flights:
        for sequence, end in _computed(flight, running):
            if end > max(sequence.mark, running.answered(sequence)):
                found[sequence.serial] = sequence
    return found


def _computed(flight: Flight, running: Running) -> Iterator[tuple[Sequence, int]]:
    """(sequence, its length when the flight's plan has run) for those that still have their slot."""
    current = running.columns.generation[flight.decodes] == flight.generations[: len(flight.decodes)]
    for slot in flight.decodes[current].tolist():
        sequence = running.sequences[slot]
        assert sequence is not None
        yield sequence, int(running.columns.computed[slot])
    for chunk in flight.chunks:
        if chunk.is_current:
            yield chunk.sequence, chunk.end


def strike(sequence: Sequence) -> None:
    """Call when its mark is up to date, that is after it has left its slot."""
    sequence.strikes += 1
    sequence.strike_mark = sequence.mark


def clear_grown(running: Running) -> None:
    """Forgives those that have grown past the length at which they were struck."""
    for order, sequence in list(running.struck.items()):
        if running.answered(sequence) > sequence.strike_mark:
            sequence.strikes = 0
            del running.struck[order]
