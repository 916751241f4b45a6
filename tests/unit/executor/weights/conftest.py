"""Fixtures: a cache directory of its own for every test, and the real default model for those that ask."""

from pathlib import Path

import pytest

from services.executor.weights.default_model import ensure_default_model


@pytest.fixture(scope="session")
def default_gguf() -> Path:
    """The real default model, in the real cache; fetched where it is not there."""
    return ensure_default_model()


@pytest.fixture(autouse=True)
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Headway's cache directory of this test."""
    if "default_gguf" in request.fixturenames:
        request.getfixturevalue("default_gguf")  # before the environment changes
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headway"
