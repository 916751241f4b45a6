"""The list of this user's models: a JSON file in the cache directory, replaced as a whole under a lock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.executor.weights.digests import cache_dir
from services.executor.weights.errors import MalformedModel
from services.executor.weights.fields import Fields
from services.executor.weights.json_file import read_object
from services.executor.weights.locking import locked
from services.runtime.files import write_whole

_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """A model that is known by name."""

    name: str
    path: Path
    source: str  # 'local', 'default', or hf:org/name@commit
    num_bytes: int
    files: Mapping[str, str]  # SHA-256 by file name


def load() -> dict[str, ModelRecord]:
    """All records by name."""
    path = _file()
    if not path.is_file():
        return {}
    models = read_object(path, _MAX_BYTES).get("models")
    if not isinstance(models, dict):
        raise MalformedModel(f"the list of models, {path}, is damaged; remove it and add the models again")
    return {name: _from_json(name, Fields(values, path.name)) for name, values in models.items()}


def put(record: ModelRecord) -> None:
    """Adds `record`, in the place of an earlier one of its name."""
    with locked(cache_dir() / ".models.lock"):
        records = load() | {record.name: record}
        models = {name: _as_json(each) for name, each in records.items()}
        write_whole(_file(), json.dumps({"models": models}, indent=1))


def _file() -> Path:
    return cache_dir() / "models.json"


def _as_json(record: ModelRecord) -> dict[str, Any]:
    return {
        "path": str(record.path),
        "source": record.source,
        "num_bytes": record.num_bytes,
        "files": dict(record.files),
    }


def _from_json(name: str, fields: Fields) -> ModelRecord:
    return ModelRecord(
        name=name,
        path=Path(fields.text("path")),
        source=fields.text("source"),
        num_bytes=fields.integer("num_bytes", 0, 1 << 60),
        files={str(file): str(digest) for file, digest in fields.raw("files").items()},
    )
