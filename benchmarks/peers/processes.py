"""A peer's processes: started in a group of their own, their memory read from /proc, all of them ended."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

END_LIMIT_S = 20.0
_KILLED_LIMIT_S = 10.0
_POLL_S = 0.05
_EXIT_GRACE_S = 2.0


@contextmanager
def running(
    command: Sequence[str], log: Path, *, cwd: Path, env: Mapping[str, str], pipes: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a command in a session of its own; at the end it and whatever it has started are ended.

    Without `pipes`, all that it says goes into `log`; with them, only its standard error does.
    """
    with log.open("wb") as file:
        pipe_or = subprocess.PIPE if pipes else None
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | env,
            stdin=pipe_or or subprocess.DEVNULL,
            stdout=pipe_or or file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL for all of the process's session that is still there; the pipes are closed."""
    for pipe in (process.stdin, process.stdout):
        _close(pipe)
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_LIMIT_S)
    give_up_s = time.monotonic() + _KILLED_LIMIT_S
    while (left := session_of(process.pid)) and time.monotonic() < give_up_s:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()
        time.sleep(_POLL_S)
    process.wait()


def exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """None where it lives. One that has just closed its pipes is given the time to end."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_EXIT_GRACE_S)
    return None


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with suppress(OSError):
            pipe.close()


def session_of(leader: int) -> set[int]:
    """Processes of the session that `leader` began, but for those that have ended and are not waited for yet."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if _lives_in(leader, (entry / "stat").read_text()):
                    found.add(int(entry.name))
    return found


def _lives_in(session: int, stat: str) -> bool:
    """What the text of a /proc/PID/stat says of the process."""
    state, _parent, _group, of_session, *_ = stat.rpartition(")")[2].split()
    return int(of_session) == session and state not in "ZX"


def peak_memory_mib(leader: int) -> float:
    """The sum, over the processes of a session, of the most memory that each has had resident so far.

    Pages that processes share count once for each, and the peaks need not have come together: an upper bound for all.
    """
    total_kib = 0
    for pid in session_of(leader):
        with suppress(OSError):
            total_kib += high_water_kib(Path(f"/proc/{pid}/status").read_text())
    return total_kib / 1024


def high_water_kib(status: str) -> int:
    """VmHWM in the text of a /proc/PID/status; 0 for a process that has ended."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0])
    return 0
