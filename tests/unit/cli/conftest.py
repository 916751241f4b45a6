"""Fixtures of the tests that go through the front door of the command line."""

import json

import pytest

LLAMA_70B = {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 8192, "rope_theta": 500000.0, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture
def clean(monkeypatch, tmp_path):
    """A cache without models, and a wide screen."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def tiny_config(tmp_path):
    """A model of which only the config is there."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_70B))
    return str(path)
