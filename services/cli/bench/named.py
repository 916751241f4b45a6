"""The named workloads, W1 to W5: what this project measures itself and its peers with."""

from services.cli.bench.lengths import Lengths
from services.cli.bench.workload import Pace, Shape
from services.runtime.lifecycle import BadSetting

_PROMPTS = Lengths(kind="uniform", least=64, most=256)
_ANSWERS = Lengths(kind="lognormal", least=16, most=256, median=80, sigma=0.7)
OPEN_DURATION_S = 60.0


def _fixed(count: int) -> Lengths:
    return Lengths(kind="fixed", least=count, most=count)


SHAPES = {
    "W1": Shape(name="W1", num_requests=64, pace=Pace(concurrency=64), input_lengths=_PROMPTS, output_lengths=_ANSWERS),
    "W2": Shape(
        name="W2", num_requests=8, pace=Pace(concurrency=1), input_lengths=_fixed(128), output_lengths=_fixed(128)
    ),
    "W3": Shape(
        name="W3", num_requests=120, pace=Pace(rate_per_s=2.0), input_lengths=_PROMPTS, output_lengths=_ANSWERS
    ),
    "W4": Shape(
        name="W4",
        num_requests=64,
        pace=Pace(concurrency=64),
        input_lengths=_fixed(32),
        output_lengths=_fixed(32),
        shared_prefix_tokens=512,
    ),
    "W5": Shape(
        name="W5",
        num_requests=16 * 8,
        pace=Pace(users=16, think_s=1.0),
        turns=8,
        input_lengths=Lengths(kind="uniform", least=64, most=128),
        turn_lengths=Lengths(kind="uniform", least=16, most=48),
        output_lengths=Lengths(kind="lognormal", least=16, most=64, median=32, sigma=0.5),
    ),
}


def named(name: str, rate_per_s: float | None = None) -> Shape:
    """The workload of that name, or its requests arriving for 60 s at that rate. Raises `BadSetting`."""
    shape = SHAPES.get(name.upper())
    if shape is None:
        raise BadSetting(f"no workload is called {name!r}; there are {', '.join(SHAPES)}")
    return shape if rate_per_s is None else shape.at_rate(rate_per_s, OPEN_DURATION_S)
