"""When a plan leaves that follows unanswered ones."""

from collections.abc import Sequence as Series

from services.scheduler.core.flight import Flight

SEND_AHEAD_US = 2_000
"""A few times what a plan takes to be made, sent and read."""


def send_us(flights: Series[Flight], last_result_us: int) -> int:
    """A little before the executor is predicted to run out of plans: what arrives until then joins the next step.

    Args:
        flights: the unanswered plans, at least one.
        last_result_us: when the newest result came.
    """
    started_us = max(flights[0].sent_us, last_result_us)
    return started_us + sum(flight.predicted_us for flight in flights) - SEND_AHEAD_US
