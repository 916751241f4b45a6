"""Beginnings and ends of processes, shown on real ones."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from services.runtime.lifecycle import REPEAT_S, ExitCode, pid_namespace

_WAITS = """
import os, time
from services.runtime.lifecycle import on_terminate
on_terminate(lambda: print("draining", flush=True))
print("ready", flush=True)
while True:
    time.sleep(10)
"""

_PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", '''
import os, sys, time
from services.runtime.lifecycle import die_with_parent
die_with_parent(int(sys.argv[1]))
print("armed", flush=True)
time.sleep(60)
''', str(os.getpid())], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def _python(code, *arguments):
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)


def _gone(pid):
    """Whether the process ended: it has no entry, or only that of an unread exit."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(("second", "pause_s"), [(signal.SIGTERM, REPEAT_S + 0.1), (signal.SIGINT, 0.0)])
def test_the_first_signal_drains_and_a_second_forces(second, pause_s):
    """One SIGTERM calls drain and the process lives on; one that comes later, or another signal, ends it."""
    with _python(_WAITS) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "draining\n"
        assert process.poll() is None
        time.sleep(pause_s)
        process.send_signal(second)
        assert process.wait(10) == ExitCode.FORCED


def test_a_signal_that_is_doubled_is_one_request():
    """SIGTERM twice at once, as process managers send it, drains once and forces nothing."""
    with _python(_WAITS) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        time.sleep(0.05)  # two that wait together to be delivered are one to the kernel
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "draining\n"
        time.sleep(REPEAT_S + 0.1)
        assert process.poll() is None
        process.kill()
        assert process.stdout.read() == ""


def test_a_child_dies_with_its_killed_parent():
    """A kill -9 of a parent ends its child, which had no chance to be told."""
    with _python(_PARENT) as parent:
        child_pid = int(parent.stdout.readline())
        assert not _gone(child_pid)
        parent.kill()
        parent.wait(10)
        deadline = time.monotonic() + 10
        while not _gone(child_pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert _gone(child_pid)


def test_a_child_whose_parent_is_gone_already_ends_at_once():
    """A child that comes too late to hear of its parent's end finds out by the parent's pid."""
    code = "import sys; from services.runtime.lifecycle import die_with_parent; die_with_parent(int(sys.argv[1]))"
    with _python(code, str(os.getpid() + 1)) as process:
        assert process.wait(10) == ExitCode.FORCED


def test_pid_namespace_is_that_of_this_process():
    """The inode is the one that the kernel shows for this process, and equal for a child."""
    assert pid_namespace() == Path("/proc/self/ns/pid").stat().st_ino
    code = "from services.runtime.lifecycle import pid_namespace; print(pid_namespace())"
    with _python(code) as process:
        assert int(process.stdout.readline()) == pid_namespace()
