"""`headway demo-batching`: the same requests through static and continuous batching, as a table and as a picture."""

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from services.cli.bench.named import named
from services.cli.bench.workload import Pace, Workload, generate
from services.cli.console import err, out
from services.cli.demo_batching import comparison
from services.cli.demo_batching.measured import Measured, measure
from services.cli.demo_server import make_sure
from services.cli.preflight import check_written
from services.runtime.lifecycle import BadSetting
from services.scheduler.core.settings import BatchingMode

MODES: tuple[BatchingMode, BatchingMode] = ("static", "continuous")


def demo_batching(
    *,
    n: int = 32,
    slots: int = 8,
    rate: float | None = None,
    seed: int = 1,
    price_per_hour: float | None = None,
    picture: str = "batching.png",
    fake: bool = False,
) -> int:
    """Send the same requests through static and through continuous batching, and show what differs.

    Two servers are started one after the other. Prompts of 64 to 256 tokens, answers of a log-normal 16 to 256 that are
    not cut short by a stop token, so that both ways do exactly the same work.

    Args:
        n: Requests.
        slots: Sequences that are computed at once.
        rate: Requests arrive one by one, so many in a second on the average (Poisson); by default all at once.
        seed: Of the prompts, lengths and arrivals; the same seed gives the same requests.
        price_per_hour: Of the machine; tells the cost of a million output tokens.
        picture: Where the picture of the slots is written, as PNG; its folder must be there.
        fake: Use a simulated model, which shows the batching but no real times.
    """
    _check(n=n, slots=slots, rate=rate, price_per_hour=price_per_hour, picture=picture)
    workload = workload_of(n, rate, seed)
    make_sure(fake=fake)
    static, continuous = (measure_with_bar(mode, workload, slots, fake=fake) for mode in MODES)
    from services.cli.demo_batching.picture import draw  # Pillow is in an extra of its own

    draw((static, continuous), Path(picture))
    rows = comparison.figures(static, continuous, price_per_hour)
    arrivals = "at once" if rate is None else f"at {rate:g}/s"
    out.print(f"{continuous.model}: {n} requests {arrivals}, {slots} slots, {continuous.num_tokens} output tokens\n")
    out.print(comparison.table(rows))
    out.print(f"\n{comparison.agreement(static, continuous)}; the picture is in {picture}\n", soft_wrap=True)
    out.print(comparison.markdown(rows), markup=False, soft_wrap=True)
    return 0


def _check(*, n: int, slots: int, rate: float | None, price_per_hour: float | None, picture: str) -> None:
    """Raises `BadSetting` before minutes are spent."""
    for name, value in (("n", n), ("slots", slots)):
        if value < 1:
            raise BadSetting(f"{name} must be at least 1")
    for name, number in (("rate", rate), ("price_per_hour", price_per_hour)):
        if number is not None and not 0 < number < math.inf:
            raise BadSetting(f"{name} must be above 0, and not without end")
    check_written("picture", picture)
    if importlib.util.find_spec("PIL") is None:
        raise BadSetting("the picture needs Pillow, which is not installed: pip install -e '.[demo]'")


def workload_of(num_requests: int, rate_per_s: float | None, seed: int) -> Workload:
    """Requests like those of W1; all at once without a rate."""
    pace = Pace(concurrency=num_requests) if rate_per_s is None else Pace(rate_per_s=rate_per_s)
    return generate(replace(named("W1"), num_requests=num_requests, pace=pace), seed)


def measure_with_bar(mode: BatchingMode, workload: Workload, num_slots: int, *, fake: bool) -> Measured:
    """Measures one way and shows how far it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(f"{mode} batching", total=len(workload.requests))
        return measure(mode, workload, num_slots=num_slots, fake=fake, tell=lambda _: progress.advance(task))
