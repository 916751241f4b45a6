"""`headway model`, through the front door of the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.main import main
from services.executor.weights import registry
from services.executor.weights.registry import ModelRecord

pytestmark = pytest.mark.usefixtures("clean")


def test_inspect_says_that_70b_does_not_fit_80_gb(capsys, tiny_config):
    """From config.json alone: KV bytes per token, what fits, the smallest tensor parallelism."""
    assert main(["model", "inspect", tiny_config, "--memory", "80GB"]) == 1
    output = capsys.readouterr().out
    assert "does not fit" in output
    assert "327,680" in output  # 2 x 80 layers x 8 heads x 128 x 2 bytes
    assert "smallest tensor parallelism  4 devices of 80.0 GB" in output
    assert "(bfloat16)" in output
    assert main(["model", "inspect", tiny_config, "--memory", "80GB", "--tp", "2"]) == 1
    half = capsys.readouterr().out
    assert (
        "70.6 GB of weights and a sequence of 2,048 on each; 69.0 GB usable: 90%, less 3.0 GB for the runtime" in half
    )
    assert "on each of 2 devices" in half
    assert main(["model", "inspect", tiny_config, "--memory", "800GB"]) == 0
    assert "1 device of 800.0 GB" in capsys.readouterr().out
    assert main(["model", "inspect", tiny_config, "--memory", "80GB", "--tp", "4"]) == 0
    assert "sequences of 2,048" in capsys.readouterr().out


def test_inspect_of_no_model_ends_as_serve_does(capsys):
    """Exit code 1 is kept for a model that does not fit."""
    assert main(["model", "inspect", "nope"]) == 2
    assert "no model is called 'nope'" in capsys.readouterr().err


def test_inspect_refuses_what_is_no_amount_of_memory(capsys, tiny_config):
    """A bad flag value ends with 2."""
    assert main(["model", "inspect", tiny_config, "--memory", "lots"]) == 2
    assert "no amount of memory" in capsys.readouterr().err


def test_a_fetch_of_what_is_here_says_so(capsys, monkeypatch):
    """Without a byte to fetch, nothing is said to be fetched; otherwise the first byte says it."""
    record = ModelRecord(name="m", path=Path("/m"), source="hf:a/m", num_bytes=5, files={})
    monkeypatch.setattr("services.executor.weights.store.fetch", lambda *_: record)
    assert main(["model", "fetch", "hf:a/m"]) == 0
    assert capsys.readouterr() == ("m: already here, 5 B in /m\n", "")
    monkeypatch.setattr("services.executor.weights.store.fetch", lambda _s, _n, tell: tell(5, 5) or record)
    assert main(["model", "fetch", "hf:a/m"]) == 0
    said = capsys.readouterr()
    assert said.out == "m: 5 B in /m\n"
    assert said.err == "headway: fetching hf:a/m\nheadway: fetched hf:a/m\n"


def test_a_hub_that_cannot_be_reached_is_told_in_plain_words(capsys, monkeypatch):
    """The reason is the network's, without the library around it."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert main(["model", "fetch", "hf:a/m"]) == 1
    assert "the hub cannot be reached (Connection refused)" in capsys.readouterr().err


def test_a_list_through_a_pipe_is_not_cut(tmp_path):
    """A path is whole, however long it is."""
    long = tmp_path / ("long-" * 30) / "m"
    record = ModelRecord(name="m", path=long, source="local", num_bytes=5, files={})
    registry.put(record)
    command = [sys.executable, "-m", "services.cli.main", "model", "list"]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert str(long) in done.stdout


def test_a_model_that_is_not_here_is_told(capsys):
    """The list says how to get one; verify and add of what is not here fail with 1."""
    assert main(["model", "list"]) == 0
    assert "headway model fetch" in capsys.readouterr().out
    assert main(["model", "verify"]) == 1
    assert main(["model", "add", "mine", "/does/not/exist"]) == 1
    assert capsys.readouterr().err.count("headway: ") == 2
