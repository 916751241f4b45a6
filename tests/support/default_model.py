"""The default model's file, and the model that is in it, for tests that are marked `model`."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def default_model() -> Path:
    """HEADWAY_TEST_MODEL where that is set, else the user's cached copy, fetched where there is none."""
    from services.executor.weights.default_model import ensure_default_model

    given = os.environ.get("HEADWAY_TEST_MODEL")
    return Path(given) if given else ensure_default_model()


@pytest.fixture(scope="session")
def loaded_default_model(default_model: Path):
    """Its weights in float32, read once for all tests; none changes them."""
    import torch

    from services.executor.weights.load import load_model

    return load_model(default_model, torch.float32)
