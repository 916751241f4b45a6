"""Priority with ageing."""

from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.sequence import Sequence

MOST = 10
"""Priorities beyond this, either way, are taken for it."""


class Priority(FirstCome):
    """A level of priority is worth `ageing_us` of waiting.

    Each has waited longer by the same, moment after moment, so the order never changes while they wait: it is that of
    the moments at which each would have come, were all equal. Whoever is passed is passed only by what comes within the
    levels between them times `ageing_us`, however many of higher priority there are.
    """

    def __init__(self, ageing_us: int) -> None:
        self._ageing_us = ageing_us

    def rank(self, sequence: Sequence) -> int:
        return super().rank(sequence) + max(-MOST, min(MOST, sequence.submit.priority)) * self._ageing_us
