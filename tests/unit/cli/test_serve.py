"""`headway serve`, through the front door of the command line: what it refuses, and what it tells its processes."""

from pathlib import Path

import pytest

from services.cli.main import main
from services.cli.plan import make_plan
from services.cli.serve_settings import ServeSettings

pytestmark = pytest.mark.usefixtures("clean")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--ready-file", "/nope/x"], "ready_file: there is no folder /nope"),
        (["--listen", "0.0.0.0:0"], "can be reached from other machines; allow_public permits that"),
        (["--listen", "unix:/nope/s.sock"], "cannot listen on unix:/nope/s.sock: there is no folder /nope"),
        (["--kv-memory-mb", "0"], "kv_memory_mb must be at least 1"),
    ],
)
def test_serve_refuses_before_anything_starts(capfd, flags, words):
    """A place that cannot be ends with 2 and nothing but the reason."""
    assert (
        main(["serve", "--fake", "--port", "0", *flags] if "unix" not in flags[1] else ["serve", "--fake", *flags]) == 2
    )
    said = capfd.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert words in said.err


def test_serve_passes_its_leave_for_public_addresses_on():
    """With --allow-public the router is told so, and the address is taken as it is."""
    plan = make_plan(ServeSettings(fake=True, listen="0.0.0.0:0", allow_public=True))
    assert "--allow-public" in plan.flags(Path("/run"))["router"]
    assert "--allow-public" not in plan.flags(Path("/run"))["scheduler"]


def test_serve_names_a_broken_model_before_it_starts(capsys, tmp_path, tiny_config):
    """A header that cannot be read, a config without weights, and a name that is none end with 2 and one line."""
    garbage = tmp_path / "garbage.gguf"
    garbage.write_bytes(b"GGUF" + b"\xff" * 100)
    plain = tmp_path / "plain.gguf"
    plain.write_bytes(b"no model")
    for model in (str(garbage), str(plain), tiny_config, "hf:foo"):
        assert main(["serve", "--port", "0", "--model", model]) == 2
        said = capsys.readouterr().err
        assert (said.startswith("headway: model: "), said.count("\n")) == (True, 1)


def test_serve_passes_the_way_of_batching_on():
    """To the scheduler, and only where it was given: unset, the scheduler's own setting holds."""
    flags = make_plan(ServeSettings(fake=True, port=0, batching="static")).flags(Path("/run"))
    assert flags["scheduler"][-4:-2] == ["--batching", "static"]
    assert "--batching" not in make_plan(ServeSettings(fake=True, port=0)).flags(Path("/run"))["scheduler"]
