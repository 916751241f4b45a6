"""The command: what it takes and what it refuses."""

from benchmarks.peers.__main__ import app


def test_peers_are_listed(capsys):
    """With a word on what each is; nothing is installed or run."""
    assert app(["--list"]) == 0
    assert "openvino-q4_1" in capsys.readouterr().out


def test_an_unknown_name_is_wrong_use(capsys):
    """Peers and workloads alike."""
    assert app(["--peers", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    assert app(["--workloads", "W9"]) == 2
