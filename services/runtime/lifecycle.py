"""How a process begins and ends: exit codes, SIGTERM, dying with its parent, and its pid namespace."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import FrameType

REPEAT_S = 0.5  # `timeout` signals its child and then the whole group: twice, and meant once
_PR_SET_PDEATHSIG = 1  # prctl(2)


class ExitCode(IntEnum):
    """Why a process ended; the names of sysexits(3) where there is one."""

    OK = 0
    BAD_SETTING = 2  # an operator's to mend
    BROKEN = 70  # an error of ours
    HUNG = 71  # the self-watchdog ended it
    PROTOCOL = 76  # the peer does not keep to the protocol
    FORCED = 143  # a second SIGTERM


class BadSetting(ValueError):
    """A setting that cannot work; its words tell the operator what to change."""


def on_terminate(drain: Callable[[], None]) -> None:
    """From now on the first SIGTERM or SIGINT calls `drain`, and a second one ends the process.

    The same signal again within `REPEAT_S` is the same request. Main thread only. `drain` runs in a signal handler: it
    sets a flag or writes a wake-up, nothing longer.
    """
    asked: int | None = None
    asked_s = 0.0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal asked, asked_s
        if asked is None:
            asked, asked_s = number, time.monotonic()
            drain()
        elif number != asked or time.monotonic() >= asked_s + REPEAT_S:
            os._exit(ExitCode.FORCED)

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


def die_with_parent(parent_pid: int) -> None:
    """Asks the kernel to kill this process when its parent ends; ends at once if that has happened already.

    The kernel watches the parent's *thread* that started this process: a supervisor starts children from a thread
    that lives as long as it does. `parent_pid` is what the parent's getpid() said.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        os._exit(ExitCode.FORCED)


def pid_namespace() -> int:
    """The inode of this process's pid namespace: two processes with the same one mean the same process by a pid."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
