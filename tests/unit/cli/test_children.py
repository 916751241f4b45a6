"""When a child that died is started again."""

import signal

import pytest

from services.cli.children import HEALTHY_S, Restarts, describe_exit


def test_the_first_restart_is_at_once_and_later_ones_back_off():
    """A child that keeps dying young is started after growing, bounded pauses."""
    restarts = Restarts()
    pauses = [restarts.pause_s(0.1) for _ in range(9)]
    assert pauses[0] == 0
    assert pauses[1:] == sorted(pauses[1:])
    assert 0 < pauses[1] < 1
    assert pauses[-1] == pauses[-2] == 5.0


def test_a_child_that_lived_well_starts_the_count_anew():
    """A death after a long life is a first death."""
    restarts = Restarts()
    for _ in range(5):
        restarts.pause_s(0.1)
    assert restarts.pause_s(HEALTHY_S) == 0
    assert restarts.deaths == 1


@pytest.mark.parametrize(
    ("status", "words"), [(2, "exit code 2"), (-signal.SIGKILL, "signal SIGKILL"), (-250, "signal 250")]
)
def test_an_exit_is_told_in_words(status, words):
    """What a process died of is said by name."""
    assert describe_exit(status) == words
