"""The models of this user: names, where their files are, and what their checksums were when they were added.

Files are never copied: a model that is added stays where it is. What is fetched lies in the cache directory, beside the
registry. Needs neither torch nor numpy.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from services.executor.weights import default_model, gguf_model, gguf_tokenizer, hf_model, hub, hub_download, registry
from services.executor.weights.digests import cache_dir, known_sha256_of, sha256_of
from services.executor.weights.errors import FetchFailed, ModelNotFound
from services.executor.weights.gguf_file import GgufFile, is_gguf
from services.executor.weights.hub_http import reason_of
from services.executor.weights.locking import locked
from services.executor.weights.registry import ModelRecord

Progress = Callable[[int, int], None]  # bytes done, bytes in all

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """What became of one file of a model."""

    name: str
    problem: str  # empty: it is the file that was added

    @property
    def is_intact(self) -> bool:
        """Whether the file's bytes are those that were added."""
        return not self.problem


def add(name: str, path: Path) -> ModelRecord:
    """Registers the model in a directory or GGUF file under `name`, in the place of an earlier one of that name.

    Raises:
        ModelFileError: the name is none, or the files are not a model that Headway can serve.
    """
    return _add(name, path, "local")


def list_models() -> list[ModelRecord]:
    """All registered models by name, the default model first where it has been fetched."""
    records = sorted(registry.load().values(), key=lambda record: record.name)
    path = default_model.default_model_path()
    if path.is_file():
        records.insert(0, _default_record(path))
    return records


def verify(name: str) -> list[FileVerdict]:
    """Reads every file of a registered model and compares it with what was added; all verdicts, good and bad."""
    record = _record(name)
    directory = record.path if record.path.is_dir() else record.path.parent
    return [FileVerdict(file, _problem(directory / file, digest)) for file, digest in record.files.items()]


def fetch(source: str, name: str = "", progress: Progress | None = None) -> ModelRecord:
    """Fetches 'default' or 'hf:org/name@revision' and registers it (as `name`, or as org/name).

    Raises:
        ModelFileError: it is not there, did not arrive, or is not a model that Headway can serve.
    """
    tell = progress or _silent
    if source == DEFAULT:
        return _default_record(default_model.ensure_default_model(tell, verify=True))
    repository, revision = hub.parse_source(source)
    name = _checked_name(name or repository)
    try:
        commit = hub.look_up(repository, revision)
    except (OSError, HTTPException) as error:
        raise FetchFailed(
            f"the hub cannot be reached ({reason_of(error)}); check the network and HF_ENDPOINT"
        ) from error
    root = cache_dir() / "models" / "hf"
    place = f"{repository.replace('/', '--')}@{commit.commit}"
    target = root / place
    with locked(root / f".{place}.lock"):
        if not target.is_dir():
            stage = root / f".part-{place}"
            hub_download.download(commit, stage, tell)
            stage.replace(target)
    return _add(name, target, f"hf:{repository}@{commit.commit}")


def resolve(name_or_path: str) -> Path:
    """Where the model is: a registered name, 'default', a hub source that was fetched, or a path.

    Raises:
        ModelNotFound: none of these; the message lists the names.
    """
    if name_or_path == DEFAULT:
        return _default_record(default_model.default_model_path()).path
    records = registry.load()
    for record in records.values():
        if name_or_path == record.name or (name_or_path.startswith("hf:") and record.source == name_or_path):
            return record.path
    path = Path(name_or_path).expanduser()
    if path.exists():
        return path.resolve()
    names = ", ".join([DEFAULT, *sorted(records)])
    raise ModelNotFound(f"no model is called {name_or_path[:120]!r}, and there is no such path; known models: {names}")


def served_name(name_or_path: str) -> str:
    """What clients call the model that `resolve` finds for `name_or_path`: its name in the store, or that of its file."""
    path = resolve(name_or_path).resolve()
    if path == default_model.default_model_path().resolve():
        return default_model.SERVED_NAME
    names = [record.name for record in registry.load().values() if record.path.resolve() == path]
    return names[0] if names else path.name.removesuffix(".gguf")


def _add(name: str, path: Path, source: str) -> ModelRecord:
    name = _checked_name(name)
    path = path.expanduser().resolve()
    files = _checked_files(path)
    record = ModelRecord(
        name=name,
        path=path,
        source=source,
        num_bytes=sum(file.stat().st_size for file in files),
        files={file.name: known_sha256_of(file) for file in files},
    )
    registry.put(record)
    return record


def _checked_files(path: Path) -> list[Path]:
    """The files of the model at `path`, once its config, tokenizer and table of tensors are known to be sound."""
    if path.is_dir():
        config = hf_model.read_config(path)
        hf_model.read_tokenizer(path, config.vocab_size)
        hf_model.read_template(path)
        side = [path / name for name in (*hf_model.SIDE_FILES, hf_model.WEIGHTS_INDEX)]
        return [file for file in side if file.is_file()] + hf_model.weight_files(path)
    if not is_gguf(path):
        raise ModelNotFound(f"{path.name} is neither a directory nor a GGUF file")
    with GgufFile(path) as gguf:
        gguf_model.check_tensors(gguf, gguf_model.config_of(gguf))
        gguf_tokenizer.tokenizer_json(gguf.metadata)
    return [path]


def _record(name: str) -> ModelRecord:
    if name == DEFAULT:
        return _default_record(default_model.default_model_path())
    record = registry.load().get(name)
    if record is None:
        names = ", ".join([DEFAULT, *sorted(registry.load())])
        raise ModelNotFound(f"no model is called {name[:120]!r}; known models: {names}")
    return record


def _default_record(path: Path) -> ModelRecord:
    if not path.is_file():
        raise ModelNotFound("the default model is not here yet; run: headway model fetch default")
    return ModelRecord(
        name=DEFAULT,
        path=path,
        source=DEFAULT,
        num_bytes=path.stat().st_size,
        files={path.name: default_model.SHA256},
    )


def _problem(file: Path, digest: str) -> str:
    if not file.is_file():
        return "missing"
    return "" if sha256_of(file) == digest else "changed since it was added"


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name == DEFAULT or ".." in name:
        raise ModelNotFound(
            f"{name[:120]!r} cannot be a model's name; use letters, digits and . _ - /, and not '{DEFAULT}'"
        )
    return name


def _silent(_done: int, _total: int) -> None:
    pass
