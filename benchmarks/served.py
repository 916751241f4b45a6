"""A server under measurement: `headway serve --fake` as real processes, and the CPU time that each has used."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.runtime.settings import SUPERVISOR_PID

START_LIMIT_S = 30.0
END_LIMIT_S = 10.0
_POLL_S = 0.05
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """Its address, and the process id of each of its processes by name."""

    address: str
    pids: Mapping[str, int]

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds that each process has used so far."""
        return {name: cpu_s(Path(f"/proc/{pid}/stat").read_text()) for name, pid in self.pids.items()}


def cpu_s(stat: str) -> float:
    """User and system seconds in the text of a /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()  # a process may be called anything, so the rest counts from its end
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


@contextmanager
def serving(settings: Mapping[str, str]) -> Iterator[Server]:
    """Serves a simulated executor on a free port under these HEADWAY_ variables alone, ready when the block begins."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    with tempfile.TemporaryDirectory() as folder:
        ready_file, log = Path(folder) / "address", Path(folder) / "log"
        command = [sys.executable, "-P", "-m", "services.cli.main", "serve", "--fake", "--port", "0"]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*command, "--ready-file", str(ready_file)],
                env={**ours, **settings, SUPERVISOR_PID: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        try:
            give_up_s = time.monotonic() + START_LIMIT_S
            while not ready_file.exists():
                if process.poll() is not None or time.monotonic() > give_up_s:
                    raise RuntimeError(f"the server did not start:\n{log.read_text()}")
                time.sleep(_POLL_S)
            yield Server(ready_file.read_text(), _children(process.pid))
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _children(pid: int) -> dict[str, int]:
    """The processes of a `headway serve` by name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
            if "serve" in words:
                found[words[words.index("serve") + 1]] = int(child)
    return found
