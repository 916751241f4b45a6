"""When requests arrive: Poisson, or Gamma gaps for burstier and smoother crowds, rescaled to last exactly as long as asked."""

import math
import random
from collections.abc import Sequence
from itertools import accumulate


def gaps(num_requests: int, rate_per_s: float, burstiness: float, rng: random.Random) -> list[float]:
    """Seconds before each request, before any rescaling.

    Gamma with shape `burstiness` and mean 1 / rate: 1 is Poisson, less is burstier (coefficient of variation
    1 / sqrt(burstiness)), infinity is a metronome.
    """
    if math.isinf(burstiness):
        return [1 / rate_per_s] * num_requests
    scale_s = 1 / (rate_per_s * burstiness)
    return [rng.gammavariate(burstiness, scale_s) for _ in range(num_requests)]


def offsets(gaps_s: Sequence[float], total_s: float) -> list[float]:
    """Arrival times: the running sum of `gaps_s`, stretched so that the last is exactly `total_s`.

    Without it the rate that a seed happens to give is off by one part in the square root of the number of requests.
    """
    if not gaps_s:
        return []
    largest = max(gaps_s)
    if largest <= 0:  # shapes near zero give gaps that floats cannot tell from none
        return [total_s] * len(gaps_s)
    running = list(accumulate(gap / largest for gap in gaps_s))
    sum_s = running[-1]
    return [min(at / sum_s * total_s, total_s) for at in running[:-1]] + [total_s]


def arrivals(num_requests: int, rate_per_s: float, burstiness: float, rng: random.Random) -> list[float]:
    """Arrival times of `num_requests` requests that take exactly num_requests / rate seconds."""
    return offsets(gaps(num_requests, rate_per_s, burstiness, rng), num_requests / rate_per_s)
