"""Least slack first."""

from collections.abc import Callable

from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.sequence import Sequence

PATIENCE_US = 60_000_000
"""A request without a deadline, whose class has no target, is taken to have so long: it is not passed for ever."""


class LeastSlack(FirstCome):
    """Whoever has to start soonest is next.

    Slack is what is left until the deadline when the prompt has been computed. All slacks shrink together, so the order
    is that of the moments at which they are used up: from then on a request is hopeless, and is refused, not computed.
    How long its answer takes is not counted: it may stop at any token.
    """

    def __init__(self, first_token_us: Callable[[Sequence], int]) -> None:
        self._first_token_us = first_token_us

    def rank(self, sequence: Sequence) -> int:
        if sequence.hopeless_us >= 0:
            return sequence.hopeless_us
        return sequence.arrived_us + (sequence.latency_class.ttft_us or PATIENCE_US)

    def hopeless_us(self, sequence: Sequence) -> int:
        if sequence.deadline_us < 0:
            return -1
        return max(0, sequence.deadline_us - self._first_token_us(sequence) + 1)
