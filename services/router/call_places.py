"""Places: how many calls of one kind may be open at once, so that none crowds out the others, health checks above all."""

from collections.abc import Iterator
from contextlib import contextmanager

from services.runtime.errors import exhausted

_FULL_PAUSE_S = 1.0


class CallPlaces:
    """Counts the calls of one kind."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._num_taken = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Holds a place. Raises `Refusal` when there is none."""
        if self._num_taken >= self._limit:
            message = f"{self._limit} calls of this kind are open, which is all that are allowed; try again later"
            raise exhausted(message, "TOO_MANY_CALLS", _FULL_PAUSE_S)
        self._num_taken += 1
        try:
            yield
        finally:
            self._num_taken -= 1
