"""Models as commands name them: a path, a name that the store knows, a hub source, or nothing for the default one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from services.cli.console import Failed, err
from services.executor.weights import hub, inspection, store
from services.executor.weights.errors import FetchFailed, ModelFileError, ModelNotFound
from services.executor.weights.gguf_file import is_gguf
from services.runtime.lifecycle import BadSetting


def model_to_serve(name: str) -> Path:
    """The files of the model called `name`, fetched first where they are not here. Raises `BadSetting` or `Failed`."""
    name = name or store.DEFAULT
    try:
        path = _here_or_fetched(name)
        if path.is_file() and not is_gguf(path):
            raise ModelNotFound(f"{path.name} is neither a model's directory nor a GGUF file")
        inspection.inspect(str(path))  # a broken header is told now, not by a process that dies of it
    except FetchFailed as error:
        raise Failed(str(error)) from None
    except ModelFileError as error:
        raise BadSetting(f"model: {error}") from None
    return path


def _here_or_fetched(name: str) -> Path:
    if name.startswith("hf:"):
        hub.parse_source(name)
    try:
        return store.resolve(name)
    except ModelNotFound:
        if name != store.DEFAULT and not name.startswith("hf:"):
            raise
    with fetch_progress(name) as fetching:
        return store.fetch(name, progress=fetching).path


class Fetching:
    """Shows how far a download is, from its first bytes on; `begun` tells whether there was anything to fetch.

    On a terminal it is a bar, elsewhere a line at the beginning and one at the end.
    """

    def __init__(self, what: str) -> None:
        self.begun = False
        self._what = what
        columns = (TextColumn("fetching {task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(*columns, console=err)
        self._task = TaskID(0)

    def __call__(self, done: int, total: int) -> None:
        if not self.begun:
            self.begun = True
            if err.is_terminal:
                self._task = self._bar.add_task(self._what, total=None)
                self._bar.start()
            else:
                err.print(f"headway: fetching {self._what}", markup=False)
        if err.is_terminal:
            self._bar.update(self._task, completed=done, total=total)

    def fetched(self) -> None:
        """All of it is here."""
        if self.begun and not err.is_terminal:
            err.print(f"headway: fetched {self._what}", markup=False)

    def stop(self) -> None:
        if self.begun and err.is_terminal:
            self._bar.stop()


@contextmanager
def fetch_progress(what: str) -> Iterator[Fetching]:
    """Within, what is fetched of `what` is shown."""
    fetching = Fetching(what)
    try:
        yield fetching
        fetching.fetched()
    finally:
        fetching.stop()
