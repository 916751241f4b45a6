"""The command line itself: what it refuses, and what it says where a command's libraries are not installed."""

import subprocess
import sys

import pytest

from services.cli.main import main

pytestmark = pytest.mark.usefixtures("clean")


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["serve", "--bogus"], ["serve", "--port", "99999"], ["serve", "--fake", "--model", "x"],
     ["serve", "router", "--max-n", "0"], ["generate"], ["serve", "--model", "/does/not/exist", "--port", "0"]],
)  # fmt: skip
def test_a_bad_command_line_ends_with_2(capsys, arguments):
    """What cannot be asked is refused with one line that says why."""
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("headway: ")
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["serve"], 2, "needs structlog, which is not installed; in a clone of Headway: make serve, or pip install -e"),
        (["serve", "--fake"], 2, "needs structlog"),
        (["serve", "router"], 2, "which is not installed"),
        (["demo"], 2, "headway: this command needs structlog"),
        (["config"], 0, ""),
        (["config", "--check"], 0, ""),
        (["model", "list"], 0, ""),
        (["frobnicate"], 2, "no command is called 'frobnicate'"),
        (["health", "--address", "127.0.0.1:1"], 1, "no answer"),
        (["--help"], 0, ""),
    ],
)
def test_the_base_install_says_what_a_command_lacks(arguments, code, words):
    """Without the server's libraries client commands work, and the others say what to install."""
    script = (
        "import sys; sys.modules.update(dict.fromkeys(['structlog', 'numpy', 'torch', 'zmq']));"
        f"from services.cli.main import main; sys.exit(main({arguments!r}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
