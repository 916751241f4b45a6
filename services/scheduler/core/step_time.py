"""The step-time estimate: how long a step of so many tokens may take before it is late, by size alone.

What a step is expected to cost, as budgets are chosen by it, is step_cost. Integers only, so that replays agree.
"""

from dataclasses import dataclass

_WEIGHT = 8  # the mean of the first eight measurements; from then on each moves it by an eighth
_MILLI = 1000
_MOST_FROM_ONE_SIZE = 8


@dataclass(slots=True)
class _Seen:
    """What was measured of the steps of one power of two of sizes."""

    count: int = 0
    mean_millitokens: int = 0
    mean_us: int = 0

    def add(self, num_tokens: int, step_us: int) -> None:
        self.count = min(_WEIGHT, self.count + 1)
        self.mean_millitokens += (num_tokens * _MILLI - self.mean_millitokens) // self.count
        self.mean_us += (step_us - self.mean_us) // self.count


class StepTime:
    """A mean for each power of two of step sizes; for sizes never seen, a fixed cost and one per token, fitted to them.

    From a single size seen the two costs cannot be told apart: half of its time is taken as fixed, and a larger step as
    at most eight times as long.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}

    def observe(self, num_tokens: int, step_us: int) -> None:
        size = _size(num_tokens)
        if size not in self._seen:
            self._seen[size] = _Seen()
        self._seen[size].add(num_tokens, step_us)

    def predict_us(self, num_tokens: int) -> int:
        """0 before anything was measured. Never less than a smaller step; one smaller than any seen takes as long."""
        size = _size(num_tokens)
        if size in self._seen:
            return self._seen[size].mean_us
        smaller, larger = self._neighbours(size)
        if smaller is None:
            return larger.mean_us if larger else 0
        if len(self._seen) == 1:
            return self._from_one(smaller, num_tokens)
        fitted_us = self._fit(num_tokens)
        if larger:
            fitted_us = min(fitted_us, larger.mean_us)
        return max(fitted_us, smaller.mean_us)

    def longest_us(self, num_tokens: int) -> int:
        """The same, but a step larger than any seen as long as if all cost were per token: what it may take at worst."""
        size = _size(num_tokens)
        if size in self._seen:
            return self._seen[size].mean_us
        predicted_us = self.predict_us(num_tokens)
        smaller, larger = self._neighbours(size)
        if smaller is None or larger:
            return predicted_us
        return max(predicted_us, smaller.mean_us * num_tokens * _MILLI // smaller.mean_millitokens)

    def _neighbours(self, size: int) -> tuple[_Seen | None, _Seen | None]:
        """The next smaller and the next larger size seen."""
        smaller = max((known for known in self._seen if known < size), default=-1)
        larger = min((known for known in self._seen if known > size), default=-1)
        return self._seen.get(smaller), self._seen.get(larger)

    def _from_one(self, seen: _Seen, num_tokens: int) -> int:
        shared_us = seen.mean_us // 2
        scaled_us = shared_us * num_tokens * _MILLI // seen.mean_millitokens
        return min(seen.mean_us - shared_us + scaled_us, _MOST_FROM_ONE_SIZE * seen.mean_us)

    def _fit(self, num_tokens: int) -> int:
        """Least squares over the means of two sizes or more; the cost per token is never below nothing."""
        points = [(seen.mean_millitokens, seen.mean_us) for seen in self._seen.values()]
        count, sum_x, sum_y = len(points), sum(x for x, _ in points), sum(y for _, y in points)
        spread = count * sum(x * x for x, _ in points) - sum_x * sum_x
        slope = max(0, count * sum(x * y for x, y in points) - sum_x * sum_y)
        return (sum_y + (count * num_tokens * _MILLI - sum_x) * slope // spread) // count


def _size(num_tokens: int) -> int:
    return max(1, num_tokens).bit_length()
