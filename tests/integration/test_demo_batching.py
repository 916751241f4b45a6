"""`headway demo-batching` on real processes and a simulated model."""

import re

from PIL import Image

from services.cli.main import main


def test_continuous_batching_uses_more_of_its_slots(tmp_path, capsys, monkeypatch):
    """The same twelve requests: fewer useful slot-steps of those held in static batches, the same answers, one picture."""
    monkeypatch.setenv("HEADWAY_EXECUTOR_SIMULATED_STEP_PER_TOKEN_US", "60")  # the gate lasts until all have arrived
    picture = tmp_path / "slots.png"
    flags = ["--fake", "--n", "12", "--slots", "4", "--price-per-hour", "1", "--picture", str(picture)]
    assert main(["demo-batching", *flags]) == 0
    said = capsys.readouterr().out
    (static, continuous) = map(float, re.search(r"\| slot utilization \| ([\d.]+)% \| ([\d.]+)% ", said).groups())
    assert 20 < static < 80
    assert continuous > 95
    assert "12 of 12 answers are the same" in said
    assert "cost of a million output tokens" in said
    with Image.open(picture) as image:
        assert image.size[0] == 1600
