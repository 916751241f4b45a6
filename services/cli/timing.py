"""What a reader of a stream measures: time to first token, times between tokens, tokens per second."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headway.client import Delta


@dataclass(slots=True)
class StreamTiming:
    """Seconds, on the reader's own clock, from the request on."""

    started_s: float = field(default_factory=time.monotonic)
    num_tokens: int = 0
    first_s: float | None = None
    last_s: float = 0.0
    longest_gap_s: float = 0.0

    def observe(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        """Passes `deltas` on and measures them."""
        for delta in deltas:
            self.note(len(delta.token_ids))
            yield delta

    def note(self, num_tokens: int, now_s: float | None = None) -> None:
        """`num_tokens` have just come together."""
        if not num_tokens:
            return
        at_s = (time.monotonic() if now_s is None else now_s) - self.started_s
        if self.first_s is None:
            self.first_s = at_s
        else:
            self.longest_gap_s = max(self.longest_gap_s, at_s - self.last_s)
        self.last_s = at_s
        self.num_tokens += num_tokens

    @property
    def mean_gap_s(self) -> float | None:
        """Mean time between tokens; None before the second."""
        if self.first_s is None or self.num_tokens < 2:
            return None
        return (self.last_s - self.first_s) / (self.num_tokens - 1)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second from the request to the last token; None before the first."""
        return self.num_tokens / self.last_s if self.last_s > 0 else None


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.0f} ms"


def summary(timing: StreamTiming) -> str:
    """One line about a stream."""
    rate = "-" if timing.tokens_per_s is None else f"{timing.tokens_per_s:.1f}"
    return (
        f"{timing.num_tokens} tokens, TTFT {milliseconds(timing.first_s)}, "
        f"TBT {milliseconds(timing.mean_gap_s)}, {rate} tokens/s"
    )
