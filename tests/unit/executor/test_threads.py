"""How many threads may compute."""

import os

import pytest

from services.executor.threads import usable_cpus


@pytest.mark.parametrize(
    ("quota", "cpus"), [("max 100000", 8), ("150000 100000", 2), ("50000 100000", 1), ("900000 100000", 8)]
)
def test_the_quota_of_a_control_group_cuts_the_cpus(tmp_path, monkeypatch, quota, cpus):
    """Eight CPUs by affinity: a quota rounds up to whole ones, and never adds any."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    cpu_max = tmp_path / "cpu.max"
    cpu_max.write_text(quota + "\n")
    assert usable_cpus(cpu_max) == cpus


def test_without_a_control_group_affinity_counts(tmp_path):
    """No quota file: all CPUs of the process."""
    assert usable_cpus(tmp_path / "absent") == len(os.sched_getaffinity(0))
