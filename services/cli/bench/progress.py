"""The progress of runs, on standard error: a bar where a person watches, nothing where nobody does."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from services.cli.bench.load import Tell
from services.cli.bench.result import Record
from services.cli.bench.workload import Workload

_REFRESH_PER_S = 2  # each drawing takes the interpreter from the load for a millisecond or two


class ProgressBar:
    """Within `with`, a bar for each run."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failures]}", style="red"),
            TimeElapsedColumn(),
            console=console,
            refresh_per_second=_REFRESH_PER_S,
            disable=not console.is_terminal,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def announce(self, workload: Workload, what: str) -> Tell:
        """A bar for one run."""
        words = f"{workload.name} {what}".strip()
        task = self._progress.add_task(words, total=len(workload.requests), failures="")
        num_failed = 0

        def tell(record: Record) -> None:
            nonlocal num_failed
            num_failed += record.status != "ok"
            self._progress.update(task, advance=1, failures=f"{num_failed} failed" if num_failed else "")

        return tell
