"""SHA-256 of files, computed once: a digest is kept beside the models for as long as the file is the same one, untouched."""

import contextlib
import hashlib
import json
import os
from pathlib import Path

from services.runtime.files import write_whole

_CHUNK_BYTES = 1 << 20
_MAX_KEPT = 4096


def cache_dir() -> Path:
    """Where Headway keeps models: ${XDG_CACHE_HOME:-~/.cache}/headway."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "headway"


def sha256_of(path: Path) -> str:
    """The hex digest of the file's bytes, read now."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def known_sha256_of(path: Path) -> str:
    """The hex digest; not read again where size, times and inode are those of the last time."""
    stat = path.stat()
    place = f"{stat.st_dev}:{stat.st_ino}"
    state = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    kept = _load()
    entry = kept.get(place)
    if isinstance(entry, list) and len(entry) == 4 and entry[:3] == state and isinstance(entry[3], str):
        return entry[3]
    digest = sha256_of(path)
    kept.pop(place, None)
    kept[place] = [*state, digest]
    _store(dict(list(kept.items())[-_MAX_KEPT:]))
    return digest


def _file() -> Path:
    return cache_dir() / "digests.json"


def _load() -> dict[str, object]:
    try:
        kept = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _store(kept: dict[str, object]) -> None:
    # A cache directory that cannot be written costs time at the next start and nothing else.
    with contextlib.suppress(OSError):
        cache_dir().mkdir(parents=True, exist_ok=True)
        write_whole(_file(), json.dumps(kept))
