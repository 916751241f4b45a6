"""The decoder's config is plain, frozen data."""

import dataclasses
import subprocess
import sys

import pytest

from services.executor.models.hf_config import read_hf_config
from services.executor.weights.errors import MalformedModel
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


@pytest.mark.parametrize(
    "change",
    [{"max_position_embeddings": 1}, {"max_position_embeddings": 2}, {"model_type": "mistral", "sliding_window": 2}],
)
def test_a_context_too_short_for_an_answer_is_refused(change: dict[str, object]) -> None:
    """A prompt and two drawn tokens must fit, or the words name what the file says of its context."""
    with pytest.raises(MalformedModel, match=r"its context, or its sliding window, is [12] tokens.*fewer than 3"):
        read_hf_config(LLAMA | change)
    assert read_hf_config(LLAMA | {"max_position_embeddings": 3}).context_length == 3
