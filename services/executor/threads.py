"""Compute threads: how many there may be, and how they wait."""

import os
from pathlib import Path


def wait_passively() -> None:
    """Lets idle compute threads sleep; call it before torch is imported, which is when its OpenMP reads this.

    A thread that spins while it waits takes the CPU from the one it waits for as soon as anything else runs on the machine:
    with two busy neighbours on two cores a decode step took 1.3 to 2.5 s spinning and 0.25 to 0.37 s sleeping.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def usable_cpus(cpu_max: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """CPUs by affinity, cut to the control group's quota (cgroup v2), at least one."""
    cpus = len(os.sched_getaffinity(0))
    quota = _quota_cpus(cpu_max.read_text()) if cpu_max.is_file() else None
    return cpus if quota is None else max(1, min(cpus, quota))


def _quota_cpus(cpu_max: str) -> int | None:
    """Whole CPUs of a quota like "150000 100000" (rounded up), None for "max 100000"."""
    quota, _, period = cpu_max.strip().partition(" ")
    return None if quota == "max" else -(-int(quota) // int(period))
