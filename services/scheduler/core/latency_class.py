"""A latency class: what a kind of requests is promised, and what it may take of the others."""

import re
from dataclasses import dataclass

PRESETS = "chat=500/50 document=5000/100 batch=spare"
MOST_US = 2**31 - 1
"""Targets stand in columns and in step records."""
_CLASS = re.compile(r"([\w.-]{1,64})=(?:(spare)|(\d{1,9})/(\d{1,9}))(?:/(\d{1,4}(?:\.\d{1,3})?))?")


@dataclass(frozen=True, slots=True)
class LatencyClass:
    """Targets in microseconds; 0: none. `weight` is how much service counts as the same, see the policy `fair`."""

    name: str = ""
    ttft_us: int = 0
    tbt_us: int = 0
    weight: float = 1.0
    is_spare: bool = False
    """It takes what the others leave: they go first, and it gives way to them."""

    @property
    def order_us(self) -> int:
        """How much later than its arrival a request of it counts in an order by moments."""
        return self.ttft_us or STANDARD_TTFT_US


STANDARD_TTFT_US = 500_000
STANDARD = LatencyClass()
"""Of requests that name no class, where the settings name none either: no targets."""


def read_classes(text: str, default: str) -> dict[str, LatencyClass]:
    """Classes by name, `""` being that of requests that name none.

    `text` has a word for each class, `NAME=TTFT/TBT` in milliseconds or `NAME=spare`, and `/WEIGHT` behind it where that
    is not 1. Raises ValueError, also for a target that no column would hold.
    """
    classes = {"": STANDARD}
    for word in text.split():
        match = _CLASS.fullmatch(word)
        if not match:
            raise ValueError(f"latency_classes: {word!r} is neither NAME=TTFT/TBT, in milliseconds, nor NAME=spare")
        name, spare, ttft_ms, tbt_ms, weight = match.groups()
        if name in classes or float(weight or 1) <= 0:
            raise ValueError(f"latency_classes: {name} is there twice, or has no weight")
        if max(int(ttft_ms or 0), int(tbt_ms or 0)) > MOST_US // 1000:
            raise ValueError(f"latency_classes: {word!r} has a target above {MOST_US // 1000} ms")
        classes[name] = LatencyClass(
            name, int(ttft_ms or 0) * 1000, int(tbt_ms or 0) * 1000, float(weight or 1), spare is not None
        )
    if default not in classes:
        raise ValueError(f"default_latency_class: {default!r} is none of the latency_classes")
    return {**classes, "": classes[default]}
