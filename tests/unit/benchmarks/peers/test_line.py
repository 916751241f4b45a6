"""The line protocol: what is written is what is read, and nonsense is said to be that."""

import pytest

from benchmarks.peers.line import Ask, BadLine, Ready, Told, line_of, message_of


@pytest.mark.parametrize(
    "message",
    [
        Ask(3, [1, 2, 49151], 16),
        Ready(),
        Told(12.5, {3: [7, 8], 12: [9]}, [3], {12: "no room"}),
    ],
)
def test_a_message_survives_its_line(message):
    """Request ids are numbers on both sides, although JSON has only texts for keys."""
    line = line_of(message)
    assert line.endswith("\n")
    assert "\n" not in line[:-1]
    assert message_of(line) == message


@pytest.mark.parametrize(
    "line",
    [
        "",
        "loading the model\n",
        "[]",
        "{}",
        '{"kind":"song"}',
        '{"kind":"ask","id":1}',
        '{"kind":"told","tokens":{"a":[1]}}',
    ],
)
def test_what_is_no_message_is_refused(line):
    """A peer that prints into the pipe is found out, not guessed at."""
    with pytest.raises(BadLine):
        message_of(line)
