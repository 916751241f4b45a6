"""A visit: every trial ends as a reading, whatever becomes of the peer."""

import dataclasses

from benchmarks.peers.launch import Launch
from benchmarks.peers.plan import Stop, trials
from benchmarks.peers.readings import MEMORY, READY
from benchmarks.peers.visit import START, Visit
from services.cli.bench.lengths import Lengths
from tests.unit.benchmarks.peers.fake_launch import ROOT, fake_launch


def visit(tmp_path, launch, readings):
    return Visit(Stop(4, 1, "fake"), launch, tmp_path / "log", quick=True, begin=lambda _: None, take=readings.append)


def answers_of(trial, count):
    shape = dataclasses.replace(trial.shape, output_lengths=Lengths(kind="fixed", least=count, most=count))
    return dataclasses.replace(trial, shape=shape)


async def test_a_visit_reads_each_trial_and_the_start(tmp_path):
    """Start-up time and memory come last."""
    readings = []
    await visit(tmp_path, fake_launch(), readings).run(trials(["W1", "W2"], quick=True))
    assert [each.workload for each in readings] == ["W1", "W2", START]
    assert {(each.round, each.place, each.peer, each.problem) for each in readings} == {(1, 4, "fake", "")}
    assert readings[0].values["output, tokens/s"] > 0
    assert readings[-1].values[READY] > 0
    assert readings[-1].values[MEMORY] > 5


async def test_a_peer_that_crashes_is_started_anew(tmp_path):
    """The trial that it died of has its reason, the next one its values."""
    one, two = trials(["W1", "W2"], quick=True)
    readings = []
    await visit(tmp_path, fake_launch(), readings).run([answers_of(one, 99), two])
    assert [bool(each.problem) for each in readings] == [True, False, False]
    assert "has ended" in readings[0].problem
    assert readings[0].problem.endswith("it ended with exit code 1: RuntimeError: 99 tokens are too many")
    assert readings[1].values["output, tokens/s"] > 0


async def test_a_peer_that_does_not_start_has_its_reason_everywhere(tmp_path):
    """Its own last words, for the start and for each trial."""
    readings = []
    await visit(tmp_path, fake_launch("broken"), readings).run(trials(["W1"], quick=True))
    assert [(each.workload, each.values) for each in readings] == [(START, {}), ("W1", {})]
    assert all("no such model" in each.problem for each in readings)


async def test_a_server_that_ends_is_not_waited_for(tmp_path):
    """The exit code and its last words are the reason."""
    launch = Launch(command=["sh", "-c", "echo the port is mine; exit 3"], speaks="http", cwd=ROOT)
    readings = []
    await visit(tmp_path, launch, readings).run(trials(["W1"], quick=True))
    assert "exit code 3: the port is mine" in readings[0].problem


async def test_who_falls_behind_is_not_asked_for_more(tmp_path):
    """A higher rate is left out with its reason, other workloads are not."""
    at_one, at_two, _ = trials(["W3"], quick=False)
    slow = answers_of(dataclasses.replace(at_one, shape=at_one.shape.at_rate(100.0, 0.02), open_for_s=0.001), 8)
    readings = []
    await visit(tmp_path, fake_launch(), readings).run([slow, at_two, *trials(["W2"], quick=True)])
    assert readings[0].problem == ""
    assert readings[1].problem == "not tried: it does not keep up with W3 at 1/s"
    assert readings[2].problem == ""
