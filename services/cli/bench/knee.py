"""The knee of a latency curve: where more load begins to cost more latency than it is worth."""

from collections.abc import Sequence

_LEAST_BEND = 0.1  # a curve that stays this near to a straight line has no knee


def knee(loads: Sequence[float], latencies: Sequence[float]) -> int | None:
    """Place of the point farthest below the straight line from the first point to the last; None where nothing bends.

    Both axes are scaled to 0..1 first (Satopaa et al., "Finding a 'Kneedle' in a Haystack", 2011). Loads grow.
    """
    if len(loads) < 3:
        return None
    width, height = loads[-1] - loads[0], latencies[-1] - latencies[0]
    if width <= 0 or height <= 0:
        return None
    below = [
        (load - loads[0]) / width - (latency - latencies[0]) / height
        for load, latency in zip(loads, latencies, strict=True)
    ]
    place = max(range(len(below)), key=below.__getitem__)
    return place if below[place] >= _LEAST_BEND else None
