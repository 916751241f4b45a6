"""`headway demo-batching`: what is refused, and the requests that are sent."""

import importlib.util

import pytest

from services.cli.demo_batching.command import workload_of
from services.cli.main import main


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--n", "0"], "n must be at least 1"),
        (["--slots", "0"], "slots must be at least 1"),
        (["--rate", "0"], "rate must be above 0"),
        (["--rate", "nan"], "rate must be above 0"),
        (["--rate", "inf"], "rate must be above 0"),
        (["--price-per-hour", "-1"], "price_per_hour must be above 0"),
        (["--picture", "/nope/slots.png"], "picture: there is no folder /nope"),
    ],
)
def test_what_cannot_be_is_refused_before_a_server_starts(capsys, flags, words):
    """Exit code 2 and the reason."""
    assert main(["demo-batching", "--fake", *flags]) == 2
    assert words in capsys.readouterr().err


def test_without_pillow_no_minutes_are_spent(capsys, monkeypatch):
    """The extra that has it is named."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "PIL" else find(name))
    assert main(["demo-batching", "--fake"]) == 2
    assert "pip install -e '.[demo]'" in capsys.readouterr().err


def test_requests_are_the_same_for_the_same_seed():
    """Both ways of batching get these; another seed gives others."""
    assert workload_of(8, None, 1) == workload_of(8, None, 1)
    assert workload_of(8, None, 1).requests != workload_of(8, None, 2).requests


def test_lengths_are_those_that_are_told():
    """Prompts of 64 to 256 tokens, answers of 16 to 256, not all alike."""
    requests = workload_of(200, None, 1).requests
    assert {64 <= len(each.prompt) <= 256 and 16 <= each.output_tokens <= 256 for each in requests} == {True}
    assert len({each.output_tokens for each in requests}) > 50
    assert {each.arrival_s for each in requests} == {0.0}


def test_a_rate_spreads_the_arrivals():
    """100 requests at 2 in a second take 50 s."""
    assert workload_of(100, 2.0, 1).requests[-1].arrival_s == pytest.approx(50)
