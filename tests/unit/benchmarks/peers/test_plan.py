"""The plan: whom a session visits when, and that everybody is asked the same."""

import itertools

import pytest

from benchmarks.peers.plan import Stop, first_token, stops, trials, warm_up

ALL = ("W1", "W2", "W3", "W4", "W5")


def test_every_peer_is_visited_beside_headway():
    """In each round Headway comes first and again after two peers; the next round turns the peers around."""
    order = [(stop.round, stop.peer) for stop in stops(["a", "b", "c"], 2)]
    first = ["headway", "a", "b", "headway", "c"]
    second = ["headway", "c", "b", "headway", "a"]
    assert order == [*((0, peer) for peer in first), *((1, peer) for peer in second)]
    assert [stop.place for stop in stops(["a", "b", "c"], 2)] == list(range(10))


def test_headway_can_be_measured_alone():
    """Without a peer there is one visit a round."""
    assert stops([], 2) == [Stop(0, 0, "headway"), Stop(1, 1, "headway")]


def test_open_arrivals_are_tried_at_each_rate():
    """One, two and four requests a second, for a minute each."""
    made = trials(ALL, quick=False)
    assert [trial.name for trial in made] == ["W1", "W2", "W3 at 1/s", "W3 at 2/s", "W3 at 4/s", "W4", "W5"]
    assert [trial.open_for_s for trial in made if trial.open_for_s] == [60, 60, 60]
    assert [len(trial.workload(0).requests) for trial in made] == [64, 8, 60, 120, 240, 64, 128]


@pytest.mark.parametrize("quick", [False, True])
def test_no_two_workloads_have_a_prompt_in_common(quick):
    """Else one would find what another has left in the prefix cache."""
    made = [trial.workload(repeat) for trial in trials(ALL, quick=quick) for repeat in (0, 1)]
    beginnings = [
        {bytes(request.prompt[:8]) for request in each.requests if not request.turn}
        for each in [*made, warm_up(quick=quick), first_token()]
    ]
    for one, other in itertools.combinations(beginnings, 2):
        assert not one & other


def test_everybody_is_asked_the_same():
    """A repeat of a trial is drawn anew for each peer, and comes out the same."""
    for trial in trials(ALL, quick=False):
        assert trial.workload(1) == trial.workload(1)
        assert trial.workload(1) != trial.workload(2)


def test_quick_trials_are_short():
    """A few requests with answers of eight tokens."""
    for trial in trials(ALL, quick=True):
        requests = trial.workload(0).requests
        assert len(requests) <= 6
        assert {request.output_tokens for request in requests} == {8}
