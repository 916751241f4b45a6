"""Attainment: how many of the requests of each latency class were given what it promises."""

from services.scheduler.core.sequence import Sequence
from services.wire.scheduling import ClassCounts


class Attainment:
    """Counts since they were taken last; only classes with targets are counted."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def take(self) -> tuple[ClassCounts, ...]:
        if not self._counts:
            return ()
        counts, self._counts = self._counts, {}
        return tuple(
            ClassCounts(name=name, ended=ended, ttft_met=ttft, tbt_met=tbt, both_met=both)
            for name, (ended, ttft, tbt, both) in sorted(counts.items())
        )

    def end(self, sequence: Sequence, num_drawn: int, at_us: int) -> None:
        """It has ended with `num_drawn` tokens, the last one now; one without a first token has met nothing.

        Whoever has begun has met a target that its class does not have. The time between tokens is the mean of
        its own; what it received elsewhere before is not counted.
        """
        promised, first_us = sequence.latency_class, sequence.account.first_token_us
        if not (promised.ttft_us or promised.tbt_us):
            return
        has_begun = first_us >= 0
        ttft_us, after_us = first_us - sequence.arrived_us, at_us - first_us
        ttft = has_begun and (not promised.ttft_us or ttft_us <= promised.ttft_us)
        tbt = has_begun and (not promised.tbt_us or after_us <= promised.tbt_us * max(0, num_drawn - 1))
        counts = self._counts.setdefault(promised.name, [0, 0, 0, 0])
        for place, met in enumerate((True, ttft, tbt, ttft and tbt)):
            counts[place] += met
