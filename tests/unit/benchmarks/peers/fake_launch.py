"""How the tests' peer is started."""

import sys
from pathlib import Path

from benchmarks.peers.launch import Launch

ROOT = Path(__file__).parents[4]


def fake_launch(*arguments: str) -> Launch:
    command = [sys.executable, "-m", "tests.unit.benchmarks.peers.fake_peer", *arguments]
    return Launch(command=command, speaks="lines", cwd=ROOT)
