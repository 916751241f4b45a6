"""What can be asked of the bench, what it comes to, and what is refused."""

import pytest

from services.cli.bench.lengths import Lengths
from services.cli.bench.named import SHAPES, named
from services.cli.bench.options import ReportOptions, TargetOptions, WorkloadOptions
from services.cli.bench.workload import Pace
from services.runtime.lifecycle import BadSetting


def shape(**fields):
    return WorkloadOptions(**fields).shape()


@pytest.mark.parametrize("name", list(SHAPES))
def test_a_named_workload_is_that_workload(name):
    """Nothing given, nothing changed."""
    assert shape(workload=name) == SHAPES[name]


def test_the_default_is_a_closed_loop():
    """64 requests at once."""
    assert shape() == SHAPES["W1"]


@pytest.mark.parametrize("rate", [1.0, 4.0])
def test_the_third_workload_has_a_rate_to_choose(rate):
    """It is still W3, for 60 seconds."""
    assert shape(workload="W3", rate=rate) == named("W3", rate)


def test_what_is_given_changes_the_named_workload():
    """And its name says that it is another."""
    made = shape(requests=10, input="7", output="uniform:1:2", concurrency=3, prefix=5)
    assert made.name == "W1, changed"
    assert (made.num_requests, made.shared_prefix_tokens, made.pace) == (10, 5, Pace(concurrency=3))
    assert (str(made.input_lengths), str(made.output_lengths)) == ("7", "uniform:1:2")


def test_people_keep_their_conversations():
    """W5 for 3 people with 2 turns: as many conversations as before; a length of one's own is that of all turns."""
    made = shape(workload="W5", users=3, turns=2, input="9")
    assert (made.num_requests, made.turns, made.pace, made.turn_lengths) == (32, 2, Pace(users=3, think_s=1.0), None)
    assert shape(workload="W5", think=5.0).pace == Pace(users=16, think_s=5.0)
    assert shape(users=20, think=5.0, turns=6).num_requests == 64 * 6


def test_open_arrivals_last_as_long_as_asked():
    """Rate times duration, or the number of requests that is given; conversations fall apart."""
    assert shape(rate=2.5, duration=10.0).num_requests == 25
    assert shape(rate=2.5, requests=7).num_requests == 7
    assert shape(workload="W5", rate=1.0).turns == 1
    assert shape(workload="W3", duration=10.0).num_requests == 20
    assert shape(rate=1.0, burstiness=0.5).pace == Pace(rate_per_s=1.0, burstiness=0.5)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"concurrency": 1, "rate": 1.0}, "one of --concurrency, --users and --rate"),
        ({"trace": "x", "input": "3"}, "leave out --input"),
        ({"rate": 0.0}, "--rate must be above zero"),
        ({"rate": float("nan")}, "--rate must be above zero"),
        ({"requests": -1}, "--requests"),
        ({"think": 1.0}, "give --users"),
        ({"think": 1.0, "rate": 2.0}, "give --users"),
        ({"burstiness": 2.0}, "give --rate"),
        ({"burstiness": 2.0, "users": 3}, "give --rate"),
        ({"duration": 5.0}, "--duration belongs to open arrivals: give --rate"),
        ({"duration": 5.0, "workload": "W5"}, "--duration belongs to open arrivals"),
        ({"duration": 5.0, "requests": 3, "rate": 2.0}, "one of --requests and --duration"),
        ({"rate": 1.0, "turns": 2, "requests": 4}, "a turn waits"),
        ({"workload": "W7"}, "there are W1"),
        ({"input": "x"}, "no length"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(fields, words):
    """The words name the flag."""
    with pytest.raises(BadSetting, match=words):
        shape(**fields)


@pytest.mark.parametrize(
    "fields", [{"rate": 2.0}, {"users": 3}, {"turns": 2}, {"requests": 5}, {"workload": "W5", "think": 2.0}]
)
def test_what_a_sweep_does_not_heed_is_refused(fields):
    """Its loads, and how many requests they have, are its own."""
    with pytest.raises(BadSetting, match=f"a sweep .* leave out --{list(fields)[-1]}"):
        WorkloadOptions(**fields).shape(swept=True)


def test_a_sweep_is_of_a_workload_and_has_a_duration():
    """Lengths, prefix, the capacity's closed loop and burstiness change what is swept; the duration is the sweep's own."""
    assert WorkloadOptions(duration=5.0).shape(swept=True) == SHAPES["W1"]
    assert WorkloadOptions(workload="W3").shape(swept=True) == SHAPES["W3"]
    made = WorkloadOptions(concurrency=8, burstiness=0.5, duration=5.0, prefix=7).shape(swept=True)
    assert made.name == "W1, changed"
    assert (made.shared_prefix_tokens, made.pace) == (7, Pace(concurrency=8, burstiness=0.5))


def test_a_closed_loop_does_not_think():
    """People who become a closed loop leave nothing of their own behind."""
    assert shape(workload="W5", concurrency=3).pace == Pace(concurrency=3)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (TargetOptions, {"http": "localhost:1"}),
        (TargetOptions, {"timeout_s": 0.0}),
        (ReportOptions, {"repeats": 0}),
        (ReportOptions, {"warmup": -1}),
        (ReportOptions, {"price_per_hour": -1.0}),
        (ReportOptions, {"price_per_hour": float("nan")}),
    ],
)
def test_other_options_are_checked_too(kind, fields):
    """Before anything is sent."""
    with pytest.raises(BadSetting):
        kind(**fields)


def test_a_length_of_the_command_line_is_that_of_the_module():
    """One written form."""
    assert shape(output="lognormal:80:0.7:16:256").output_lengths == Lengths.of("lognormal:80:0.7:16:256")
