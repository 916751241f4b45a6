"""Models as commands name them: a path, a name that the store knows, a hub source, or nothing for the default one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from services.cli.console import Failed, err
from services.executor.weights import store
from services.executor.weights.errors import FetchFailed, ModelFileError, ModelNotFound
from services.runtime.lifecycle import BadSetting


def model_to_serve(name: str) -> Path:
    """The files of the model called `name`, fetched first where they are not here. Raises `BadSetting` or `Failed`."""
    name = name or store.DEFAULT
    try:
        try:
            return store.resolve(name)
        except ModelNotFound:
            if name != store.DEFAULT and not name.startswith("hf:"):
                raise
        with fetch_progress(name) as progress:
            return store.fetch(name, progress=progress).path
    except FetchFailed as error:
        raise Failed(str(error)) from None
    except ModelFileError as error:
        raise BadSetting(f"model: {error}") from None


@contextmanager
def fetch_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that shows how far a download is; the function moves it. Without a terminal, a line at its beginning and end."""
    if not err.is_terminal:
        err.print(f"headway: fetching {what}", markup=False)
        yield lambda _done, _total: None
        err.print(f"headway: fetched {what}", markup=False)
        return
    columns = (TextColumn("fetching {task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
