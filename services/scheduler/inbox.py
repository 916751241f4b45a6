"""The core thread's inbox: any thread puts, the core's thread takes, and a file descriptor wakes its poll."""

import os
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

CAPACITY = 4096


class Inbox(Generic[T]):
    """A queue between threads. Who puts in bulk waits while it `is_full`, so that a flood stays with its sender."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    @property
    def is_full(self) -> bool:
        return len(self._items) >= CAPACITY

    def put(self, item: T) -> None:
        self._items.append(item)
        os.eventfd_write(self.fd, 1)

    def take(self) -> list[T]:
        """All that is in it, oldest first."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return []
        return [self._items.popleft() for _ in range(len(self._items))]

    def close(self) -> None:
        os.close(self.fd)
