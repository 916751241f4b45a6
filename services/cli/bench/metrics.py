"""What a record says about its request: times to first token, per token, between tokens, to the end. Seconds.

docs/benchmarking.md defines each. None, or an empty list, where a request has no such time; `math.inf` where it ought to
have one and, having failed, never will.
"""

import math
from collections.abc import Callable
from itertools import pairwise

from services.cli.bench.result import Record

Metric = Callable[[Record], list[float]]


def ttft(record: Record) -> list[float]:
    """From the intended send to the first token."""
    return [] if record.first_s is None else [record.first_s - record.intended_s]


def ttft_sent(record: Record) -> list[float]:
    """From the real send to the first token."""
    return [] if record.first_s is None else [record.first_s - record.sent_s]


def tpot(record: Record) -> list[float]:
    """Mean time of each token after those of the first message; one value for each request that has such tokens."""
    later = record.output_tokens - record.message_tokens[0] if record.message_s else 0
    if later <= 0 or len(record.message_s) < 2:
        return []
    return [(record.message_s[-1] - record.message_s[0]) / later]


def itl_message(record: Record) -> list[float]:
    """Times between messages with tokens."""
    return [later - earlier for earlier, later in pairwise(record.message_s)]


def itl_token(record: Record) -> list[float]:
    """Times between tokens: those that came in one message came at the same time. Empty where messages are not counted."""
    if not record.counts_told or not record.message_s:
        return []
    gaps_s = [0.0] * (record.message_tokens[0] - 1)
    for gap_s, num_tokens in zip(itl_message(record), record.message_tokens[1:], strict=True):
        gaps_s += [gap_s, *[0.0] * (num_tokens - 1)]
    return gaps_s


def e2e(record: Record) -> list[float]:
    """From the intended send to the last token."""
    return [record.message_s[-1] - record.intended_s] if record.message_s else []


def e2e_sent(record: Record) -> list[float]:
    """From the real send to the last token."""
    return [record.message_s[-1] - record.sent_s] if record.message_s else []


def late(record: Record) -> list[float]:
    """How late the generator sent: real minus intended send."""
    return [record.sent_s - record.intended_s]


METRICS: dict[str, Metric] = {
    "ttft": ttft,
    "ttft_sent": ttft_sent,
    "tpot": tpot,
    "itl_message": itl_message,
    "itl_token": itl_token,
    "e2e": e2e,
    "e2e_sent": e2e_sent,
}


def of_answered(name: str, records: list[Record]) -> list[list[float]]:
    """A metric's values for each request that ended well; those that did not are counted elsewhere."""
    return [METRICS[name](record) for record in records if record.status == "ok"]


def of_all(name: str, records: list[Record]) -> list[list[float]]:
    """The same for every request, as an SLO sees them: one that failed took for ever."""
    return [METRICS[name](record) if record.status == "ok" else [math.inf] for record in records]
