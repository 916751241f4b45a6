"""Settings from flags and the environment."""

from dataclasses import dataclass
from typing import Literal

import pytest

from services.runtime.lifecycle import BadSetting
from services.runtime.settings import Origin, check_names, load, variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy:
    """Settings of nothing.

    Attributes:
        size: How big.
        names: Who.
    """

    size: int = 3
    names: tuple[str, ...] = ("a",)
    ratio: float = 0.5
    eager: bool = False
    mode: Literal["fast", "slow"] = "fast"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise BadSetting("size must be at least 1")


def test_defaults_are_the_dataclass_own():
    """With nothing given, each field has its default and says so."""
    loaded = load(Toy, "toy")
    assert loaded.settings == Toy()
    assert loaded.origins == dict.fromkeys(["size", "names", "ratio", "eager", "mode"], Origin.DEFAULT)


def test_flags_win_over_the_environment(monkeypatch):
    """A flag wins over a variable, a variable over the default, and each origin is known."""
    monkeypatch.setenv("HEADWAY_TOY_SIZE", "4")
    monkeypatch.setenv("HEADWAY_TOY_RATIO", "0.25")
    loaded = load(Toy, "toy", ["--size", "5", "--eager"])
    assert loaded.settings == Toy(size=5, ratio=0.25, eager=True)
    assert loaded.origins["size"] == Origin.FLAG
    assert loaded.origins["ratio"] == Origin.ENVIRONMENT
    assert loaded.origins["mode"] == Origin.DEFAULT


@pytest.mark.parametrize("value", ["a:1,b:2", "a:1 b:2", "a:1, b:2"])
def test_a_column_in_the_environment_is_split(monkeypatch, value):
    """Values of a tuple are separated by commas or spaces."""
    monkeypatch.setenv("HEADWAY_TOY_NAMES", value)
    assert load(Toy, "toy").settings.names == ("a:1", "b:2")


def test_a_column_is_a_repeated_flag():
    """Values of a tuple are given by repeating the flag."""
    assert load(Toy, "toy", ["--names", "x", "--names", "y"]).settings.names == ("x", "y")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--size", "many"], "size"),
        (["--size", "0"], "size must be at least 1"),
        (["--mode", "other"], "fast"),
        (["--sise", "4"], "sise"),
        (["stray"], "'stray' is more than this command takes"),
        (["--size"], "size"),
    ],
)
def test_a_bad_flag_is_refused_with_the_reason(flags, words):
    """An unknown flag, or a value that cannot be, is a bad setting that names the flag."""
    with pytest.raises(BadSetting, match=words):
        load(Toy, "toy", flags)


@pytest.mark.parametrize(("name", "value"), [("SIZE", "many"), ("EAGER", "maybe"), ("MODE", ""), ("SIZE", "-1")])
def test_a_bad_variable_is_refused_with_the_reason(monkeypatch, name, value):
    """A value in the environment that cannot be is refused, not replaced by the default."""
    monkeypatch.setenv(f"HEADWAY_TOY_{name}", value)
    with pytest.raises(BadSetting, match=name if value != "-1" else "size"):
        load(Toy, "toy")


def test_a_misspelt_variable_is_refused_and_the_near_one_named():
    """HEADWAY_TOY_SISE is not silently ignored."""
    with pytest.raises(BadSetting, match="HEADWAY_TOY_SISE is no setting; did you mean HEADWAY_TOY_SIZE"):
        check_names({"toy": Toy}, ["PATH", "HEADWAY_TOY_SISE"])


def test_a_variable_like_none_gets_no_suggestion():
    """The prefix that all share is no likeness."""
    with pytest.raises(BadSetting, match="HEADWAY_FOO is no setting; see headway config"):
        check_names({"toy": Toy}, ["HEADWAY_FOO"])


def test_known_variables_and_service_links_pass():
    """Settings, the hooks, and what a cluster puts into the environment for a service are let through."""
    names = [variable("toy", "size"), "HEADWAY_TEST_HOOKS", "HEADWAY_CPU_LEVEL"]
    names += ["HEADWAY_TOY_SERVICE_HOST", "HEADWAY_TOY_PORT"]
    check_names({"toy": Toy}, [*names, "HEADWAY_TOY_PORT_50051_TCP_ADDR", "HEADWAY_TOY_SERVICE_PORT_GRPC"])
