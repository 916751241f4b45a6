"""The step-time estimate: how long a step of so many tokens will take. Integers only, so that replays agree."""

_WEIGHT = 8  # a new measurement moves the estimate by an eighth


class StepTime:
    """A running mean for each power of two of step sizes; between them, the nearest known one scaled."""

    def __init__(self) -> None:
        self._mean_us: dict[int, int] = {}

    def observe(self, num_tokens: int, step_us: int) -> None:
        size = max(1, num_tokens).bit_length()
        mean = self._mean_us.get(size)
        self._mean_us[size] = step_us if mean is None else mean + (step_us - mean) // _WEIGHT

    def predict_us(self, num_tokens: int) -> int:
        """0 before anything was measured. A larger step than any known is scaled up, a smaller one never down."""
        size = max(1, num_tokens).bit_length()
        mean = self._mean_us.get(size)
        if mean is not None:
            return mean
        smaller = max((known for known in self._mean_us if known < size), default=0)
        if smaller:
            return self._mean_us[smaller] << (size - smaller)
        larger = min((known for known in self._mean_us if known > size), default=0)
        return self._mean_us.get(larger, 0)
