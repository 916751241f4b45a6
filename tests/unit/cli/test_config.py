"""`headway config`, through the front door of the command line."""

import pytest

from services.cli.config import ALL
from services.cli.main import main
from services.cli.settings_page import page

pytestmark = pytest.mark.usefixtures("clean")


def test_config_shows_values_and_origins(capsys, monkeypatch):
    """Each setting of each process is shown with where it comes from."""
    monkeypatch.setenv("HEADWAY_ROUTER_MAX_N", "3")
    assert main(["config"]) == 0
    output = capsys.readouterr().out
    rows = [line.split() for line in output.splitlines()]
    assert ["max_n", "3", "environment", "HEADWAY_ROUTER_MAX_N"] in rows
    assert ["token_budget", "512", "default"] in rows
    assert all(f"\n{process} " in f"\n{output}" for process in ("router", "scheduler", "executor", "serve"))


def test_every_setting_says_what_it_means():
    """No row of the settings page is without a meaning, and no default is Python's spelling."""
    rows = [row.split(" | ") for row in page(ALL).splitlines() if row.startswith("| `")]
    assert len(rows) > 60
    assert [row[0] for row in rows if not row[3].strip(" |")] == []
    assert [row[1] for row in rows if "(" in row[1] or "True" in row[1]] == []


def test_config_of_one_process_takes_its_flags(capsys):
    """A flag is an origin as well."""
    assert main(["config", "scheduler", "--token-budget", "7"]) == 0
    assert ["token_budget", "7", "flag"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("HEADWAY_ROUTER_MAX_M", "3", "did you mean HEADWAY_ROUTER_MAX_N"),
        ("HEADWAY_ROUTER_MAX_N", "many", "HEADWAY_ROUTER_MAX_N"),
        ("HEADWAY_SCHEDULER_TOKEN_BUDGET", "0", "token_budget must be at least 1"),
    ],
)
def test_config_check_ends_with_2_and_the_reason(capsys, monkeypatch, name, value, words):
    """An unknown variable, or a value that cannot be, ends with exit code 2; nothing bad with 0."""
    assert main(["config", "--check"]) == 0
    monkeypatch.setenv(name, value)
    assert main(["config", "--check"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert words in output.err


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ROUTER_SALT_SECRET_FILE", "/nope", "salt_secret_file: cannot read /nope"),
        ("EXECUTOR_CURVE_KEY_FILE", "/nope", "cannot read the CURVE key file"),
        ("SCHEDULER_EXECUTOR_ENDPOINT", "tcp://127.0.0.1:5", "needs CURVE keys"),
        ("EXECUTOR_SCHEDULER_ENDPOINT", "tcp://127.0.0.1:5", "needs CURVE keys"),
        ("EXECUTOR_MODEL", "/nope", "no model is called '/nope'"),
        ("SERVE_MODEL", "hf:nope", "names no model of a hub"),
        ("SERVE_READY_FILE", "/nope/x", "there is no folder /nope"),
        ("ROUTER_LISTEN", "unix:/nope/x", "listen: there is no folder /nope"),
        ("SCHEDULER_RECORD", "/tmp", "is a folder"),
    ],
)
def test_config_check_opens_the_files_that_are_named(capsys, monkeypatch, name, value, words):
    """With what a server would not start with, the check does not end with 0."""
    monkeypatch.setenv(f"HEADWAY_{name}", value)
    assert main(["config", "--check"]) == 2
    assert words in capsys.readouterr().err
