"""How many threads may compute: the CPUs of this process, or fewer where its control group says so."""

import os
from pathlib import Path


def usable_cpus(cpu_max: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """CPUs by affinity, cut to the control group's quota (cgroup v2), at least one."""
    cpus = len(os.sched_getaffinity(0))
    quota = _quota_cpus(cpu_max.read_text()) if cpu_max.is_file() else None
    return cpus if quota is None else max(1, min(cpus, quota))


def _quota_cpus(cpu_max: str) -> int | None:
    """Whole CPUs of a quota like "150000 100000" (rounded up), None for "max 100000"."""
    quota, _, period = cpu_max.strip().partition(" ")
    return None if quota == "max" else -(-int(quota) // int(period))
