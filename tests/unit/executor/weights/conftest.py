"""Fixtures: a cache directory of its own for every test, and the real default model for those that ask."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from services.executor.weights.default_model import ensure_default_model
from services.executor.weights.gguf_file import GgufFile
from services.executor.weights.gguf_tokenizer import tokenizer_json


@pytest.fixture(scope="session")
def default_gguf() -> Path:
    """The real default model, in the real cache; fetched where it is not there."""
    return ensure_default_model()


@pytest.fixture(scope="session")
def default_tokenizers(default_gguf: Path) -> tuple[Tokenizer, Any]:
    """Headway's tokenizer of the default model, and transformers' conversion of the same file."""
    from transformers import AutoTokenizer

    with GgufFile(default_gguf) as file:
        ours = Tokenizer.from_str(tokenizer_json(file.metadata))
    return ours, AutoTokenizer.from_pretrained(default_gguf.parent, gguf_file=default_gguf.name)


@pytest.fixture(autouse=True)
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Headway's cache directory of this test."""
    if "default_gguf" in request.fixturenames:
        request.getfixturevalue("default_gguf")  # before the environment changes
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headway"
