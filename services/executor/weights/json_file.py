"""JSON files that a stranger wrote: bounded in size, an object at the top, errors in plain words."""

import json
from pathlib import Path
from typing import Any

from services.executor.weights.errors import MalformedModel, ModelNotFound

MAX_CONFIG_BYTES = 4 << 20
MAX_TOKENIZER_BYTES = 128 << 20


def read_text(path: Path, most: int = MAX_CONFIG_BYTES) -> str:
    """The file's text, of at most `most` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ModelNotFound(f"cannot read {path.name}: {error.strerror}") from error
    if len(data) > most:
        raise MalformedModel(f"{path.name} is longer than {most} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedModel(f"{path.name} is not valid UTF-8") from error


def read_object(path: Path, most: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in the file."""
    return parse_object(read_text(path, most), path.name)


def parse_object(text: str, source: str) -> dict[str, Any]:
    """The JSON object in `text`; `source` names it in errors."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedModel(f"{source} is not valid JSON; fetch it again") from error
    if not isinstance(value, dict):
        raise MalformedModel(f"{source} holds no JSON object")
    return value
