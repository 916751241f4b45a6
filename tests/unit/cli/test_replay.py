"""`headway replay`, through its front door."""

from services.cli.main import main
from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from services.scheduler.recorder import Recorder
from tests.simulation.strict_engine import StrictEngine


def record(path, recorded=None):
    """Writes a log of one request; `recorded` are the settings that its header claims."""
    settings = CoreSettings(token_budget=16)
    with path.open("wb") as file:
        driver = Driver(settings, StrictEngine(), recorder=Recorder(file, recorded or settings))
        driver.start()
        driver.submit(range(1, 40), max_tokens=10)
        driver.run()


def test_a_log_that_replays_is_equal(tmp_path, capsys):
    """Exit code 0, and what was compared."""
    record(tmp_path / "log")
    assert main(["replay", str(tmp_path / "log")]) == 0
    assert capsys.readouterr().out.startswith("equal: ")


def test_a_log_of_other_decisions_diverges(tmp_path, capsys):
    """Exit code 1, and where."""
    record(tmp_path / "log", recorded=CoreSettings(token_budget=17))
    assert main(["replay", str(tmp_path / "log")]) == 1
    assert "diverges: at " in capsys.readouterr().err


def test_what_is_no_log_is_refused(tmp_path, capsys):
    """Exit code 2 for another file, for none and for a folder."""
    (tmp_path / "other").write_bytes(b"something else")
    for name, reason in (("other", "no Headway event log"), ("none", "No such file"), (".", "Is a directory")):
        assert main(["replay", str(tmp_path / name)]) == 2
        assert reason in capsys.readouterr().err
