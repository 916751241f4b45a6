"""Worker threads: whether they help with a step of few rows."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median


@dataclass(slots=True)
class _Times:
    """Seconds of the newest steps of about as many rows, by who computed them."""

    alone: deque[float] = field(default_factory=lambda: deque(maxlen=5))
    together: deque[float] = field(default_factory=lambda: deque(maxlen=5))
    num_steps: int = 0
    together_pays: bool = True


class Workers:
    """Lets the worker threads help with few rows only while that pays, as the newest steps tell.

    Few rows wait for memory, and one thread gets most of what memory gives. Where a helper's CPU is also wanted by others,
    the scheduler and the router among them, waiting for it costs more than it helps. Results are the same either way.
    """

    MOST_ROWS = 8
    GAIN = 0.85
    """What a step's time has to fall to, for the helpers' CPUs have other work too."""
    TRY_EVERY = 32
    """Steps after which the other way is tried again."""

    def __init__(self, num_threads: int) -> None:
        self._has_any = num_threads > 1
        self._times = [_Times() for _ in range(self.MOST_ROWS.bit_length() + 1)]

    def help_with(self, rows: int) -> bool:
        """Whether they shall help with the step of so many rows that comes next."""
        if not self._has_any or rows > self.MOST_ROWS:
            return self._has_any
        times = self._times[rows.bit_length()]
        times.num_steps += 1
        return times.together_pays ^ (times.num_steps % self.TRY_EVERY == 0)

    def took(self, rows: int, seconds: float, *, together: bool) -> None:
        """That step is over."""
        if not self._has_any or rows > self.MOST_ROWS:
            return
        times = self._times[rows.bit_length()]
        (times.together if together else times.alone).append(seconds)
        if times.alone and times.together:
            times.together_pays = median(times.together) < self.GAIN * median(times.alone)
