"""Attempts: when a call that failed is made again. No I/O; the only clock is the deadline's."""

import random
import time
from dataclasses import dataclass
from typing import Any

from headway._client.errors import AlreadyExists, HeadwayError, Overloaded, Unavailable, error_of


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and after which pauses, a call is made again. A token that arrives starts the count anew."""

    max_attempts: int = 10
    first_pause_s: float = 0.1
    max_pause_s: float = 2.0


class Attempts:
    """The calls that one request has made since it last made progress, under one deadline."""

    def __init__(self, policy: RetryPolicy, timeout_s: float | None, address: str) -> None:
        self._policy = policy
        self._timeout_s = timeout_s
        self._address = address
        self._deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        self.failures = 0

    def time_left_s(self) -> float | None:
        return None if self._deadline_s is None else self._deadline_s - time.monotonic()

    def error_of(self, call: Any) -> HeadwayError:
        """The error that ended `call`."""
        return error_of(call, self._address, self._timeout_s)

    def progressed(self) -> None:
        self.failures = 0

    def pause_s(self, error: HeadwayError) -> float:
        """How long to wait before the next call. Raises `error` where there is to be none."""
        self.failures += 1
        if isinstance(error, Overloaded) and error.retry_after_s is not None:
            pause_s = error.retry_after_s * random.uniform(1.0, 1.2)  # noqa: S311 - never before the server's time
        elif isinstance(error, Unavailable) or (isinstance(error, AlreadyExists) and self.failures > 1):
            # AlreadyExists after a failure: the server has not yet noticed that our own broken call is gone.
            growing_s = self._policy.first_pause_s * 2.0 ** (self.failures - 1)
            pause_s = min(growing_s, self._policy.max_pause_s) * random.uniform(0.8, 1.2)  # noqa: S311
            pause_s = max(pause_s, error.retry_after_s or 0.0)
        else:
            raise error
        left_s = self.time_left_s()
        if self.failures >= self._policy.max_attempts or (left_s is not None and pause_s >= left_s):
            raise error
        return pause_s
