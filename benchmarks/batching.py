"""Static against continuous batching on the default model: the same requests at once, and as they come."""

from collections.abc import Sequence

from benchmarks.report import Row
from services.cli.bench.named import named
from services.cli.bench.workload import Workload, generate
from services.cli.demo_batching.comparison import Figure, figures
from services.cli.demo_batching.measured import measure
from services.executor.weights.default_model import ensure_default_model

SLOTS = 16
SEED = 1
RATE_PER_S = 2.0
WORKLOADS = {"W1, 64 at once": named("W1"), f"Poisson, {RATE_PER_S:g}/s for 60 s": named("W3", RATE_PER_S)}


def run() -> list[Row]:
    """Fetches the model where it is not there, and serves it four times."""
    ensure_default_model()
    rows: list[Row] = []
    for name, shape in WORKLOADS.items():
        rows += rows_of(name, compared(generate(shape, SEED), fake=False))
    return rows


def compared(workload: Workload, *, fake: bool) -> list[Figure]:
    """Both ways, one after the other."""
    static, continuous = (
        measure(mode, workload, num_slots=SLOTS, fake=fake, tell=lambda _: None) for mode in ("static", "continuous")
    )
    return figures(static, continuous, price_per_hour=None)


def rows_of(name: str, compared_figures: Sequence[Figure]) -> list[Row]:
    """Each figure of both ways, and the factor between them."""
    return [
        row
        for figure in compared_figures
        for row in (
            Row(f"{name}, static: {figure.name}", figure.static, figure.unit),
            Row(f"{name}, continuous: {figure.name}", figure.continuous, figure.unit),
            Row(f"{name}, better by: {figure.name}", figure.factor, "x"),
        )
    ]
