"""The journal: a session that was cut short goes on where it was."""

from benchmarks.peers.journal import Journal
from benchmarks.peers.readings import Reading

READING = Reading(0, 1, "a", "W1", {"output, tokens/s": 12.5}, "")


def test_a_session_goes_on_with_what_was_measured(tmp_path):
    """Readings come back as they were, and belong to their visit."""
    Journal(tmp_path / "j", "plan", resume=False).note(READING)
    journal = Journal(tmp_path / "j", "plan", resume=True)
    assert journal.readings == [READING]
    assert journal.of_visit(1) == [READING]
    assert journal.of_visit(2) == []


def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    """What was whole stays."""
    path = tmp_path / "j"
    journal = Journal(path, "plan", resume=False)
    journal.note(READING)
    with path.open("a") as file:
        file.write('{"round": 0, "pla')
    assert Journal(path, "plan", resume=True).readings == [READING]


def test_another_session_begins_anew(tmp_path):
    """One that was not asked to go on, or that was asked for other things."""
    path = tmp_path / "j"
    Journal(path, "plan", resume=False).note(READING)
    assert Journal(path, "other", resume=True).readings == []
    Journal(path, "plan", resume=False).note(READING)
    assert Journal(path, "plan", resume=False).readings == []
    assert Journal(path, "plan", resume=True).readings == []
