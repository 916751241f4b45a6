"""The arrivals of one stream: when its reader got how many tokens, in seconds of the reader's clock."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median


@dataclass(slots=True)
class Arrivals:
    """Messages with tokens, in order."""

    started_s: float
    at_s: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def note(self, num_tokens: int, now_s: float) -> None:
        """A message has come; one without tokens does not count."""
        if num_tokens:
            self.at_s.append(now_s)
            self.counts.append(num_tokens)

    @property
    def first_s(self) -> float:
        """Time to the first token."""
        return self.at_s[0] - self.started_s

    @property
    def num_tokens(self) -> int:
        return sum(self.counts)

    @property
    def longest_gap_s(self) -> float:
        """Between two messages; 0 before the second."""
        return max((later - earlier for earlier, later in pairwise(self.at_s)), default=0.0)

    @property
    def mean_gap_s(self) -> float:
        """Between two tokens. There must be a second message."""
        return (self.at_s[-1] - self.at_s[0]) / (self.num_tokens - self.counts[0])

    def within(self, begin_s: float, end_s: float) -> "Arrivals":
        """The messages after `begin_s`, up to `end_s`."""
        kept = [(at, count) for at, count in zip(self.at_s, self.counts, strict=True) if begin_s < at <= end_s]
        return Arrivals(self.started_s, [at for at, _ in kept], [count for _, count in kept])


def mean_gap_s(streams: Sequence[Arrivals]) -> float:
    """The mean of the streams' mean times between tokens."""
    return fmean(stream.mean_gap_s for stream in streams)


def num_steps(streams: Sequence[Arrivals]) -> float:
    """Steps of an executor in which all streams decoded: each gave each of them a token."""
    return median(stream.num_tokens for stream in streams)
