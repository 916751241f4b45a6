"""A handle on the executor's process, where it is in our pid namespace: its death is seen at once, and it can be killed.

A pidfd names one process for good: unlike a pid it can never come to mean another one.

Who says hello names the pid, and could name any process of our user. Only one whose command line is that of a Headway
executor (`... serve executor ...`) is believed: the worst that a lie can do is to end some executor of ours.
"""

import os
import select
import signal
from itertools import pairwise
from pathlib import Path

from services.runtime.lifecycle import pid_namespace
from services.runtime.logging import get_logger

_log = get_logger(__name__)


class ProcessHandle:
    """A process, or none of ours (`fd` is None then)."""

    def __init__(self, pid: int, namespace: int) -> None:
        self.fd: int | None = None
        if pid <= 1 or pid in (os.getpid(), os.getppid()) or not namespace or namespace != pid_namespace():
            return
        try:
            self.fd = os.pidfd_open(pid)
        except (OSError, AttributeError) as error:  # gone already, or a kernel or platform without pidfds
            _log.info("executor cannot be watched as a process", pid=pid, reason=str(error))
            return
        # The pidfd came first: if its process has not ended by now, what was read is its own command line.
        if not _runs_an_executor(pid) and not self.has_ended():
            _log.warning("a pid that is no executor's was named; it will not be killed", pid=pid)
            self.close()

    def kill(self) -> bool:
        """SIGKILL; False when the process is out of reach."""
        if self.fd is None:
            return False
        try:
            signal.pidfd_send_signal(self.fd, signal.SIGKILL)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return True

    def has_ended(self) -> bool:
        """Whether it is known that the process has ended."""
        if self.fd is None:
            return False
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def _runs_an_executor(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:  # gone, or not ours to look at
        return False
    return (b"serve", b"executor") in pairwise(words)
