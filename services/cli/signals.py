"""Signals as a queue: a main loop waits for the next one instead of being interrupted anywhere."""

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Self


class SignalInbox:
    """Within `with`, collects `numbers` for `wait`. Main thread only."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers = numbers

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._old_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._old = {number: signal.signal(number, _ignore) for number in self._numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float) -> set[int]:
        """The signals that have come since the last call, waiting for one up to `timeout_s`."""
        if not select.select([self._reader], [], [], timeout_s)[0]:
            return set()
        return set(os.read(self._reader, 4096))


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """The wake-up pipe says all; a handler must stand, so that the signal does not end the process."""
