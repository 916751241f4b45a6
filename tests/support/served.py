"""A `headway serve` under test: started on a free port, asked for its processes, ended."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

START_LIMIT_S = 60.0


class Served:
    """One running `headway serve`."""

    def __init__(self, process, address, folder):
        self.process = process
        self.address = address
        self.folder = folder

    @property
    def pid(self):
        return self.process.pid

    def children(self):
        """Process ids of the children by name."""
        found = {}
        for pid in _children_of(self.pid):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"serve" in words:
                found[words[words.index(b"serve") + 1].decode()] = pid
        return found

    def said(self):
        """What it has printed so far."""
        return (self.folder / "stderr").read_text() + (self.folder / "stdout").read_text()

    def end(self, number=signal.SIGTERM, limit_s=30.0):
        """Signals it and waits; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(limit_s)


def _children_of(pid):
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def command(*flags):
    return [sys.executable, "-P", "-m", "services.cli.main", "serve", *flags]


@contextmanager
def serve(folder, *flags, port=0, environment=None, fake=True):
    """Serves a simulated executor, or the default model, ready when the block begins; whatever is left is killed at its end."""
    ready_file = folder / f"ready-{time.monotonic_ns()}"
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            command(*(["--fake"] if fake else []), "--port", str(port), "--ready-file", str(ready_file), *flags),
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
    served = Served(process, "", folder)
    try:
        wait_until(lambda: ready_file.exists() or process.poll() is not None, START_LIMIT_S, served.said)
        assert process.poll() is None, served.said()
        served.address = ready_file.read_text()
        yield served
    finally:
        process.kill()
        process.wait()


def wait_until(condition, limit_s, why=lambda: ""):
    """Waits for `condition`; fails with `why()` after `limit_s`."""
    give_up_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < give_up_s, f"waited {limit_s} s in vain: {why()}"
        time.sleep(0.02)


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False
