"""A session: everybody is visited, and one that lacks takes nothing from the others."""

import pytest

from benchmarks.peers.catalogue import Peer, Place
from benchmarks.peers.environment import NotInstalled
from benchmarks.peers.journal import Journal
from benchmarks.peers.plan import trials
from benchmarks.peers.ratios import OURS, cells
from benchmarks.peers.session import Session
from benchmarks.peers.visit import START
from tests.unit.benchmarks.peers.fake_launch import fake_launch


def absent(_):
    raise NotInstalled("there is no such wheel")


OURSELVES = Peer(OURS, "the one that others are compared with", lambda _: fake_launch())
THERE = Peer("there", "a peer", lambda _: fake_launch())
ABSENT = Peer("absent", "a peer that cannot be had", absent)


def session(tmp_path, *, resume=False):
    journal = Journal(tmp_path / "journal", "plan", resume=resume)
    chosen = trials(["W2"], quick=True)
    return Session([OURSELVES, ABSENT, THERE], chosen, 1, quick=True, place=Place(tmp_path), journal=journal)


def test_what_cannot_be_installed_is_reported_and_the_rest_measured(tmp_path, capsys):
    """The reason stands in the journal and on the screen; who is there has values and a ratio."""
    under_test = session(tmp_path)
    under_test.run()
    readings = under_test.journal.readings
    assert [(each.peer, each.workload) for each in readings] == [
        (OURS, "W2"),
        (OURS, START),
        ("absent", START),
        ("there", "W2"),
        ("there", START),
    ]
    assert readings[2].problem == "there is no such wheel"
    assert "there is no such wheel" in capsys.readouterr().out
    measured = {(cell.peer, cell.metric): cell for cell in cells(readings)}
    assert measured["there", "output, tokens/s"].ratio.median > 0


@pytest.fixture(scope="module")
def whole_journal(tmp_path_factory):
    """The lines of a session that was not cut short."""
    folder = tmp_path_factory.mktemp("whole")
    session(folder).run()
    return (folder / "journal").read_text().splitlines(keepends=True)


@pytest.mark.parametrize("kept", [0, 1, 2, 4, 5])
def test_a_session_that_was_cut_short_measures_what_is_missing(tmp_path, whole_journal, kept):
    """Nothing twice, and in the end there is as much as in one that was not cut."""
    (tmp_path / "journal").write_text("".join(whole_journal[: 1 + kept]))
    again = session(tmp_path, resume=True)
    before = list(again.journal.readings)
    assert len(before) == kept
    again.run()
    assert again.journal.readings[:kept] == before
    assert len(again.journal.readings) == 5
