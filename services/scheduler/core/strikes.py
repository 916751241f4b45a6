"""Strikes: which sequence may be the one that kills executors.

A sequence is a suspect of a loss when the unanswered plan computed tokens of it that no executor had ever computed. A
poisonous one cannot get past the token that kills, so it is a suspect each time; an innocent one grows past it and is
cleared. With two strikes it runs alone until then; the third convicts.

Executors that die of something else make coincidences likely: whoever computes its next token when the next one dies
looks poisonous. A loss is unexplained when all its suspects have grown since, so that none of them was to blame. As
many losses in a row without growth as were unexplained of late are put down to chance, `MAX_FORGIVEN` at most: a
poisonous sequence costs three executors where executors are well, and no more than seven where they are not.
"""

from collections import deque
from collections.abc import Collection, Iterator

from services.scheduler.core.flight import Flight
from services.scheduler.core.loss import Loss
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence

CONVICTED = 3
MAX_FORGIVEN = 4
MEMORY_US = 60_000_000
"""How long an unexplained loss speaks for the innocent."""


class Strikes:
    """The losses of late, and the strikes that they are worth."""

    def __init__(self) -> None:
        self._losses: deque[Loss] = deque()

    def lose(self, suspects: Collection[Sequence], at_us: int) -> list[Sequence]:
        """Strikes the suspects of a loss, which have left their slots, and returns those it convicts."""
        num_forgiven = self._num_forgiven(at_us)
        loss = Loss(at_us, len(suspects))
        self._losses.append(loss)
        for sequence in suspects:
            sequence.losses.append(loss)
            sequence.strike_mark = sequence.mark
            deserved = min(sequence.strikes + 1, len(sequence.losses) - num_forgiven)
            sequence.strikes = max(1, sequence.strikes, deserved)
        return [sequence for sequence in suspects if sequence.strikes >= CONVICTED]

    def _num_forgiven(self, at_us: int) -> int:
        while self._losses and self._losses[0].at_us < at_us - MEMORY_US:
            self._losses.popleft()
        return min(MAX_FORGIVEN, sum(loss.is_unexplained for loss in self._losses))


def suspects(flight: Flight, running: Running) -> list[Sequence]:
    """Those to strike for the loss of the executor while this was its first unanswered plan.

    Plans behind it have not been begun: plans run in order, and a result is sent before the next step begins. (One that
    was sent and has not arrived blames the step it answers; whoever is poisonous then shares the first plan after it.)
    """
    found = {
        sequence.serial: sequence
        for sequence, end in _computed(flight, running)
        if end > max(sequence.mark, running.answered(sequence))
    }
    return list(found.values())


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


def clear_grown(running: Running) -> None:
    """Forgives those that have grown past the length at which they were struck."""
    for order, sequence in list(running.struck.items()):
        if running.answered(sequence) > sequence.strike_mark:
            for loss in sequence.losses:
                loss.num_suspects -= 1
            sequence.losses.clear()
            sequence.strikes = 0
            del running.struck[order]


def leave(sequence: Sequence) -> None:
    """Of one that has ended: if it has not grown since a loss, it may have been its cause."""
    for loss in sequence.losses:
        loss.may_be_explained = True
