"""Files that others read while they are written."""

import os
import secrets
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Replaces the file at `path`: a reader sees the old text or the new one, also after a crash."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
