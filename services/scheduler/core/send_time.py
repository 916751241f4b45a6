"""When a plan leaves that follows unanswered ones."""

from collections.abc import Sequence as Series

from services.scheduler.core.flight import Flight

SEND_AHEAD_US = 2_000
"""A few times what a plan takes to be made, sent and read."""


LONGEST_US = 25_000
"""With longer steps there is next to nothing to gain, and whoever comes too late for a plan waits for one more."""


def send_us(flights: Series[Flight], last_result_us: int, next_us: int = 0) -> int | None:
    """A little before the executor is predicted to run out of plans: what arrives until then joins the next step.

    None: not before a result has come, for a step is long, or nothing is known of steps yet.

    Args:
        flights: the unanswered plans, at least one.
        last_result_us: when the newest result came.
        next_us: what the step of the plan may take.
    """
    started_us = max(flights[0].sent_us, last_result_us)
    predicted_us = sum(flight.predicted_us for flight in flights)
    if not predicted_us or max(predicted_us, next_us) > LONGEST_US:
        return None
    return started_us + predicted_us - SEND_AHEAD_US
