"""`headway model`: fetches, adds, lists, verifies and inspects models."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from cyclopts import App
from rich.table import Table

from services.cli.console import Failed, bytes_in_words, fail, out
from services.cli.models import fetch_progress
from services.executor.models.memory import MEMORY_UTILIZATION, parse_bytes
from services.executor.weights import inspection, store
from services.executor.weights.errors import ModelFileError
from services.runtime.lifecycle import BadSetting

P = ParamSpec("P")
R = TypeVar("R")

app = App(name="model", help="Fetch, add, list, verify and inspect models.", result_action="return_value")


def _told(command: Callable[P, R]) -> Callable[P, R]:
    """Lets the words of what is wrong with a model reach the user."""

    @wraps(command)
    def told(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return command(*arguments, **options)
        except ModelFileError as error:
            raise Failed(str(error)) from None

    return told


@app.command
@_told
def fetch(source: str = store.DEFAULT, /, *, name: str = "") -> None:
    """Fetch a model and check it against its published checksum; a broken download goes on where it was.

    Args:
        source: "default", or hf:org/name@revision.
        name: What to call it; by default as its source does.
    """
    with fetch_progress(source) as fetching:
        record = store.fetch(source, name, fetching)
    already = "" if fetching.begun else "already here, "
    out.print(
        f"{record.name}: {already}{bytes_in_words(record.num_bytes)} in {record.path}", markup=False, soft_wrap=True
    )


@app.command
@_told
def add(name: str, path: Path, /) -> None:
    """Give a name to a model that is here: a GGUF file or a Hugging Face directory. It stays where it is.

    Args:
        name: What to call it.
        path: Where it is.
    """
    record = store.add(name, path)
    out.print(f"{record.name}: {bytes_in_words(record.num_bytes)} in {record.path}", markup=False, soft_wrap=True)


@app.command(name="list")
@_told
def list_models() -> None:
    """List the models that are here."""
    table = Table("name", "size", "source", "path", box=None, pad_edge=False)
    for record in store.list_models():
        table.add_row(record.name, bytes_in_words(record.num_bytes), record.source, str(record.path))
    out.print(table if table.row_count else "no models yet; run: headway model fetch")


@app.command
@_told
def verify(name: str = store.DEFAULT, /) -> int:
    """Compare each file of a model with its checksum; exit code 1 when one differs.

    Args:
        name: The model's name.
    """
    broken = [verdict for verdict in store.verify(name) if not verdict.is_intact]
    for verdict in broken:
        fail(f"{verdict.name}: {verdict.problem}")
    if not broken:
        out.print(f"{name}: intact", markup=False)
    return 1 if broken else 0


@app.command
@_told
def inspect(
    model: str, /, *, memory: str = "", dtype: str = "bfloat16", context: int | None = None, tp: int = 1
) -> int:
    """Say what a model needs, from its config.json or GGUF header alone; exit code 1 when it does not fit.

    Args:
        model: A name, a directory, a GGUF file or a config.json.
        memory: Memory of one device, as 80GB or 16GiB.
        dtype: Number format of weights and KV cache: float32, bfloat16 or float16.
        context: Tokens of one sequence; by default 2048.
        tp: Devices that share the model.
    """
    try:
        memory_bytes = parse_bytes(memory) if memory else None
        report = inspection.inspect(model, memory_bytes=memory_bytes, dtype=dtype, context=context, tp=tp)
    except (ValueError, ModelFileError) as error:  # exit code 1 says that it does not fit
        raise BadSetting(str(error)) from None
    for name, words in _facts(report, tp):
        out.print(f"{name:<29}{words}", markup=False, soft_wrap=True)
    return 0 if report.fit is None or report.fit.fits else 1


def _facts(report: inspection.ModelReport, tp: int) -> list[tuple[str, str]]:
    config = report.config
    weights = ", ".join(f"{bytes_in_words(count)} {dtype}" for dtype, count in report.weight_bytes_by_dtype.items())
    facts = [
        ("model", f"{report.name} ({config.architecture})"),
        ("parameters", f"{report.num_parameters:,}"),
        ("weights", weights),
        (
            "KV bytes per token",
            f"{report.kv_bytes_per_token:,} ({report.dtype}{f', on each of {tp} devices' if tp > 1 else ''})",
        ),
        ("context", f"{config.context_length:,} tokens"),
    ]
    if report.fit is None or report.memory_bytes is None:
        return facts
    fit, devices = report.fit, f"{tp} x {bytes_in_words(report.memory_bytes)}"
    if fit.fits:
        tokens = f"{fit.pool_tokens:,} tokens of KV pool"
        facts.append((f"on {devices}", f"fits {fit.num_sequences} sequences of {report.context:,} ({tokens})"))
    else:
        runtime_bytes = int(report.memory_bytes * MEMORY_UTILIZATION) - fit.usable_bytes
        usable = (
            f"{bytes_in_words(fit.usable_bytes)} usable: {MEMORY_UTILIZATION:.0%}, "
            f"less {bytes_in_words(runtime_bytes)} for the runtime"
        )
        needed = f"{bytes_in_words(fit.weight_bytes)} of weights and a sequence of {report.context:,} on each"
        facts.append((f"on {devices}", f"does not fit ({needed}; {usable})"))
    smallest = report.smallest_tensor_parallel
    words = "none is enough" if smallest is None else f"{_devices(smallest)} of {bytes_in_words(report.memory_bytes)}"
    facts.append(("smallest tensor parallelism", words))
    return facts


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"
