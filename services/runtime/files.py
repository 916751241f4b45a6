"""Files that other processes wait for."""

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Writes a file that is never seen half written."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
