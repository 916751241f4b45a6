"""What can be found wrong with settings before a process starts: the files and folders that they name."""

import importlib.util
import os
from pathlib import Path

from services.cli.serve_settings import ServeSettings
from services.executor.settings import ExecutorSettings
from services.executor.weights import hub, store
from services.executor.weights.errors import ModelFileError
from services.router.settings import RouterSettings
from services.router.tenant_salts import TenantSalts
from services.runtime.lifecycle import BadSetting
from services.runtime.listen import unix_path
from services.scheduler.settings import SchedulerSettings

_LIBRARIES = ("structlog", "numpy", "zmq", "tokenizers", "jinja2", "uvloop")
_ENGINE_LIBRARIES = ("torch", "gguf", "safetensors")


def check_installed(*, fake: bool) -> None:
    """Raises ModuleNotFoundError, before anything is fetched, for a library that the base install lacks."""
    for library in _LIBRARIES if fake else (*_LIBRARIES, *_ENGINE_LIBRARIES):
        if importlib.util.find_spec(library) is None:
            raise ModuleNotFoundError(f"{library} is not installed", name=library)


def check_files(
    router: RouterSettings, scheduler: SchedulerSettings, executor: ExecutorSettings, serve: ServeSettings
) -> None:
    """Opens every file that the settings name; nothing is fetched or written. Raises `BadSetting`."""
    TenantSalts.read(router.salt_secret_file)
    for name, place in (
        ("ready_file", router.ready_file),
        ("record", scheduler.record),
        ("ready_file", serve.ready_file),
    ):
        check_written(name, place)
    for listen in (router.listen, scheduler.listen, serve.listen):
        if listen.startswith("unix:"):
            check_written("listen", unix_path(listen))
    for key_file in {scheduler.curve_key_file, executor.curve_key_file} - {""}:
        from services.runtime.curve import read_keys  # the base install has no ZeroMQ

        read_keys(key_file)
    for model in {serve.model, executor.model} - {"", store.DEFAULT}:
        check_model(model)


def check_model(name: str) -> None:
    """Raises `BadSetting` for a model that neither is here nor could be fetched."""
    try:
        if name.startswith("hf:"):
            hub.parse_source(name)
        else:
            store.resolve(name)
    except ModelFileError as error:
        raise BadSetting(f"model: {error}") from None


def check_written(name: str, place: str) -> None:
    """Raises `BadSetting` where the file that the setting `name` places at `place` could not be written."""
    if not place:
        return
    path = Path(place)
    if path.is_dir():
        raise BadSetting(f"{name}: {place} is a folder; give the path of a file")
    if not path.parent.is_dir():
        raise BadSetting(f"{name}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadSetting(f"{name}: the folder {path.parent} may not be written in")
