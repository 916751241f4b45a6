"""The processes of a peer: all are counted, and none is left."""

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.peers.processes import high_water_kib, peak_memory_mib, running, session_of

STATUS = "Name:\tpython\nVmPeak:\t  900 kB\nVmHWM:\t  512 kB\nVmRSS:\t  100 kB\n"
# A parent that ignores SIGTERM with a child that has let go of everything but its session.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "b = bytearray(60_000_000); import time; print('up', flush=True); time.sleep(60)"])
time.sleep(60)
"""


def test_the_high_water_mark_is_read():
    """Not what is resident now, and nothing of a process that has no memory any more."""
    assert high_water_kib(STATUS) == 512
    assert high_water_kib("Name:\tpython\nState:\tZ (zombie)\n") == 0


def test_a_peer_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    """Also where it does not care for SIGTERM; its children count as its memory while they live."""
    monkeypatch.setattr("benchmarks.peers.processes.END_LIMIT_S", 0.2)
    log = tmp_path / "log"
    with running([sys.executable, "-c", STUBBORN], log, cwd=tmp_path, env={}) as process:
        while "up" not in log.read_text():
            time.sleep(0.02)
        members = session_of(process.pid)
        assert len(members) == 2
        assert peak_memory_mib(process.pid) > 57
    assert session_of(process.pid) == set()


def test_other_sessions_are_left_alone(tmp_path):
    """A process that happens to run meanwhile is none of the peer's."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True) as other:
        with running([sys.executable, "-c", ""], tmp_path / "log", cwd=Path.cwd(), env={}) as process:
            assert other.pid not in session_of(process.pid)
        assert other.poll() is None
        other.kill()
