"""The examples and client commands against a real server on the simulated executor."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.served import serve

ROOT = Path(__file__).parents[2]
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
SHOWN = {
    "stream": ["ended by FINISH_REASON_", "prompt tokens", "tokens, the first after"],
    "chat": ["> My name is Ada.", "5 messages so far"],
    "many_at_once": ["15: ", "tokens/s"],
    "cancel": ["stopped after", "the deadline has passed", "refused: sampling.temperature"],
    "resume": ["lost after", "the same as without a loss: True"],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("served")) as served:
        yield served


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, cwd=ROOT)


def test_every_example_is_tested():
    """No example is left out below."""
    assert set(EXAMPLES) == set(SHOWN)


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_an_example_does_what_it_says(served, name):
    """Each script ends with exit code 0 and shows what it is there to show."""
    done = run(sys.executable, str(EXAMPLES[name]), "--address", served.address)
    assert done.returncode == 0, done.stderr
    for words in SHOWN[name]:
        assert words in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["generate", "say something", "--max-tokens", "8", "--stats"], "tokens/s"),
        (["health"], "SERVING"),
        (["health", "--service", "liveness"], "SERVING"),
        (["demo", "--max-tokens", "8"], "TTFT"),
    ],
)
def test_a_client_command_works_against_the_server(served, arguments, words):
    """The commands of the README run and end with 0."""
    done = run(sys.executable, "-m", "services.cli.main", *arguments, "--address", served.address)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout + done.stderr


def test_demo_starts_and_ends_its_own_server():
    """Without an address the demo serves by itself, on a free port, and leaves nothing running."""
    done = run(sys.executable, "-m", "services.cli.main", "demo", "--fake", "--max-tokens", "8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" ms") >= 16
    assert "tokens/s in all" in done.stdout
    assert "ready" not in done.stdout  # what its server says of itself is not the demo's
    assert done.stderr == "headway: starting a server for the demo\n"


def test_a_demo_whose_server_does_not_start_says_why_once(monkeypatch):
    """The server's own reason stands by itself, not inside the demo's."""
    monkeypatch.setenv("HEADWAY_SERVE_LISTEN", "nowhere")
    done = run(sys.executable, "-m", "services.cli.main", "demo", "--fake")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line for line in lines if "nowhere" in line] == [lines[1]]
    assert lines[2] == "headway: the demo's server did not start (exit code 2); the reason is above"
