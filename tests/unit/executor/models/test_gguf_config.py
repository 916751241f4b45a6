"""GGUF metadata describes the same decoders as config.json does, and gets the same checks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.executor.models.gguf_config import read_gguf_config
from services.executor.models.hf_config import read_hf_config
from services.executor.weights.errors import ModelFileError
from tests.unit.executor.models.configs import GGUF, JUNK, LLAMA, SCALINGS


def test_gguf_metadata_gives_the_same_config() -> None:
    """The same model described in GGUF is the same config; the tensors say whether embeddings are tied."""
    config = read_gguf_config(GGUF, {"output.weight"})
    assert config == read_hf_config(LLAMA)
    assert read_gguf_config(GGUF, ()).tie_embeddings


def test_yarn_from_gguf_equals_yarn_from_hugging_face() -> None:
    """YaRN metadata gives the frequencies of the same YaRN in config.json, and the longer context."""
    metadata = GGUF | {
        "llama.context_length": 1024,
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 1024,
    }
    config = read_gguf_config(metadata, ())
    other = read_hf_config(LLAMA | {"rope_scaling": SCALINGS["yarn"], "max_position_embeddings": 1024})
    assert config.inverse_frequencies() == other.inverse_frequencies()
    assert config.rope_attention_factor == other.rope_attention_factor
    assert config.context_length == other.context_length == 4096


def test_a_sliding_window_limits_the_context() -> None:
    """A model is served up to its window here too."""
    assert read_gguf_config(GGUF | {"llama.attention.sliding_window": 512}, ()).context_length == 512


def test_biases_and_norms_are_seen_in_gguf_tensors() -> None:
    """GGUF has no fields for biases and QK norms: their tensors speak."""
    names = {"blk.0.attn_q.bias", "blk.0.attn_q_norm.weight", "output.weight"}
    config = read_gguf_config(GGUF, names)
    assert (config.qkv_bias, config.qk_norm, config.o_bias, config.mlp_bias) == (True, True, False, False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"general.architecture": "gemma3"}, "architecture 'gemma3'"),
        ({"llama.expert_count": 8}, "mixture-of-experts"),
        ({"llama.rope.dimension_count": 16}, "rope.dimension_count"),
        ({"llama.attention.head_count": [8, 4]}, "attention.head_count"),
        ({"llama.rope.scaling.type": "longrope"}, "'longrope'"),
        ({"llama.block_count": -1}, "block_count"),
    ],
)
def test_bad_gguf_metadata_is_refused(change: dict[str, Any], words: str) -> None:
    """GGUF metadata gets the same checks."""
    with pytest.raises(ModelFileError, match=words):
        read_gguf_config(GGUF | change, ())


@given(
    st.sampled_from([*sorted(GGUF), "llama.rope.scaling.type", "llama.rope.scaling.factor", "tokenizer.ggml.tokens"]),
    JUNK,
)
def test_any_value_in_gguf_metadata_is_read_or_refused(name: str, value: Any) -> None:
    """The same holds for GGUF metadata."""
    try:
        read_gguf_config({**GGUF, "llama.vocab_size": None, name: value}, ())
    except ModelFileError:
        return


def test_the_vocabulary_is_as_large_as_its_list_where_no_field_says_so() -> None:
    """Without the field, the list of tokens is counted; where that is no list, the file is refused."""
    metadata = {name: value for name, value in GGUF.items() if name != "llama.vocab_size"}
    assert read_gguf_config(metadata | {"tokenizer.ggml.tokens": ["a"] * 1000}, ()).vocab_size == 1000
    with pytest.raises(ModelFileError, match="vocab_size"):
        read_gguf_config(metadata | {"tokenizer.ggml.tokens": 5}, ())
