"""The decoder's config is plain, frozen data."""

import dataclasses
import subprocess
import sys

import pytest

from services.executor.models.hf_config import read_hf_config
from tests.unit.executor.models.configs import LLAMA


def test_a_config_cannot_be_changed() -> None:
    """The config is frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        read_hf_config(LLAMA).num_layers = 3  # type: ignore[misc]


def test_configs_are_read_without_torch_or_numpy() -> None:
    """`headway model inspect` runs where neither is installed."""
    code = (
        "import sys; sys.modules.update(torch=None, numpy=None, gguf=None, safetensors=None, tokenizers=None)\n"
        "import services.executor.weights.inspection"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
