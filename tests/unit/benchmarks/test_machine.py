"""The machine's description."""

import itertools
import json
import platform

from benchmarks.machine import Pace, calibration_us, cpu_model, describe


def test_the_calibration_is_the_median_of_its_loops():
    """One loop that was disturbed does not move it."""
    durations_ns = [3000] * 7 + [900_000] + [5000] * 7
    reads = itertools.chain.from_iterable((0, duration) for duration in durations_ns)
    assert calibration_us(lambda: next(reads)) == 5.0


def test_a_machine_says_how_fast_and_how_busy_it_was():
    """The facts are plain values that JSON can hold, with the pace on both sides of the run."""
    facts = json.loads(json.dumps(describe(Pace(700.04, 0.5), Pace(701, 1.25))))
    assert facts["calibration_us"] == {"before": 700.0, "after": 701}
    assert facts["load_average"] == {"before": 0.5, "after": 1.25}
    assert facts["python"] == platform.python_version()
    assert facts["cpu"]
    assert facts["cores"] >= 1
    assert facts["memory_gib"] > 0


def test_the_processor_is_named_or_at_least_its_kind():
    """Where /proc/cpuinfo has no model name, as on some ARM machines, the architecture stands in."""
    assert cpu_model("processor\t: 0\nmodel name\t: Fast: 9000\nmodel name\t: Other\n") == "Fast: 9000"
    assert cpu_model("processor\t: 0\nBogoMIPS\t: 50.00\n") == platform.machine()
