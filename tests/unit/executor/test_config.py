"""Configs of the Llama family are read right, and what is not supported is named."""

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM

from services.executor.models.config import DecoderConfig
from services.executor.weights.errors import MalformedModel, ModelFileError, UnsupportedModel

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "bos_token_id": 1,
    "eos_token_id": [2, 3],
}
GGUF: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.context_length": 4096,
    "llama.embedding_length": 256,
    "llama.block_count": 2,
    "llama.feed_forward_length": 512,
    "llama.attention.head_count": 8,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 500000.0,
    "llama.vocab_size": 1000,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.eot_token_id": 3,
}
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    "yarn with mscale": {
        "rope_type": "yarn",
        "factor": 16.0,
        "original_max_position_embeddings": 1024,
        "mscale": 1.0,
        "mscale_all_dim": 0.8,
        "beta_fast": 16,
        "beta_slow": 2,
        "truncate": False,
    },
}


def test_a_llama_config_is_read_field_by_field() -> None:
    """What config.json says is in the config, and what it leaves open has the family's defaults."""
    config = DecoderConfig.from_hf(LLAMA)
    assert config == DecoderConfig(
        architecture="llama",
        vocab_size=1000,
        hidden_size=256,
        num_layers=2,
        num_heads=8,
        num_kv_heads=2,
        head_dim=32,
        intermediate_size=512,
        context_length=4096,
        norm_eps=1e-5,
        rope_theta=500000.0,
        eos_ids=(2, 3),
    )
    assert (config.q_size, config.kv_size) == (256, 64)


def test_gguf_metadata_gives_the_same_config() -> None:
    """The same model described in GGUF is the same config; the tensors say whether embeddings are tied."""
    config = DecoderConfig.from_gguf(GGUF, {"output.weight"})
    assert config == DecoderConfig.from_hf(LLAMA)
    assert DecoderConfig.from_gguf(GGUF, ()).tie_embeddings


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("new_format", [False, True])
def test_frequencies_equal_those_of_transformers(kind: str, new_format: bool) -> None:
    """Each way of scaling gives transformers' frequencies and factor, from either format of config.json."""
    values = dict(LLAMA)
    if new_format:
        values["rope_parameters"] = SCALINGS[kind] | {"rope_theta": values.pop("rope_theta")}
    else:
        values["rope_scaling"] = SCALINGS[kind]
    rotary = AutoModelForCausalLM.from_config(AutoConfig.for_model(**values)).model.rotary_emb
    config = DecoderConfig.from_hf(values)
    assert np.allclose(config.inverse_frequencies(), rotary.inv_freq.numpy(), rtol=2e-6, atol=0)
    assert config.rope_attention_factor == pytest.approx(rotary.attention_scaling)


def test_a_config_that_transformers_wrote_is_read(tmp_path) -> None:
    """Transformers' own newest config.json of each family is understood."""
    for family in ("llama", "mistral", "qwen2", "qwen3"):
        values = AutoConfig.for_model(**(LLAMA | {"model_type": family})).to_dict()
        config = DecoderConfig.from_hf(values)
        assert (config.architecture, config.rope_theta, config.num_kv_heads) == (family, 500000.0, 2)
        assert (config.qkv_bias, config.qk_norm) == (family == "qwen2", family == "qwen3")
        assert config.head_dim == (128 if family == "qwen3" else 32)


def test_yarn_from_gguf_equals_yarn_from_hugging_face() -> None:
    """YaRN metadata gives the frequencies of the same YaRN in config.json, and the longer context."""
    metadata = GGUF | {
        "llama.context_length": 1024,
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 1024,
    }
    config = DecoderConfig.from_gguf(metadata, ())
    other = DecoderConfig.from_hf(LLAMA | {"rope_scaling": SCALINGS["yarn"], "max_position_embeddings": 1024})
    assert config.inverse_frequencies() == other.inverse_frequencies()
    assert config.rope_attention_factor == other.rope_attention_factor
    assert config.context_length == other.context_length == 4096


def test_a_sliding_window_limits_the_context() -> None:
    """A model is served up to its window, within which windowed and full attention are the same."""
    mistral = LLAMA | {"model_type": "mistral"}
    assert DecoderConfig.from_hf(mistral | {"sliding_window": 512}).context_length == 512
    assert DecoderConfig.from_hf(mistral | {"sliding_window": None}).context_length == 4096
    assert DecoderConfig.from_hf(mistral | {"max_position_embeddings": 32768}).sliding_window == 4096
    qwen = LLAMA | {"model_type": "qwen2", "sliding_window": 512}
    assert DecoderConfig.from_hf(qwen).context_length == 4096
    assert DecoderConfig.from_hf(qwen | {"use_sliding_window": True}).context_length == 512
    assert DecoderConfig.from_gguf(GGUF | {"llama.attention.sliding_window": 512}, ()).context_length == 512


def test_biases_and_norms_are_seen_in_gguf_tensors() -> None:
    """GGUF has no fields for biases and QK norms: their tensors speak."""
    names = {"blk.0.attn_q.bias", "blk.0.attn_q_norm.weight", "output.weight"}
    config = DecoderConfig.from_gguf(GGUF, names)
    assert (config.qkv_bias, config.qk_norm, config.o_bias, config.mlp_bias) == (True, True, False, False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "mixtral"}, "model_type 'mixtral'.*supported: llama, mistral, qwen2, qwen3"),
        ({"num_local_experts": 8}, "num_local_experts.*mixture-of-experts"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'.*silu"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rope type 'longrope'.*supported: default, linear"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope type 'dynamic'"),
        ({"rope_parameters": {"full_attention": {}}}, "differ between layers"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
    ],
)
def test_what_is_not_supported_is_named(change: dict[str, Any], words: str) -> None:
    """An unsupported feature is refused with the field's name and what is supported."""
    with pytest.raises(UnsupportedModel, match=words):
        DecoderConfig.from_hf(LLAMA | change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": 1 << 40}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size is True, but must be an integer"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_key_value_heads": 3}, "do not divide"),
        ({"num_key_value_heads": 16}, "num_key_value_heads"),
        ({"head_dim": 33}, "rotary halves"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"rope_theta": 0}, "rope_theta"),
        ({"eos_token_id": 1000}, "eos_token_id"),
        ({"eos_token_id": "2"}, "eos_token_id"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor is missing"),
        ({"rope_scaling": "linear"}, "rope_scaling.*object"),
        ({"vocab_size": None}, "vocab_size is missing"),
    ],
)
def test_values_out_of_range_are_refused(change: dict[str, Any], words: str) -> None:
    """A missing, mistyped or impossible value is refused with its field's name."""
    with pytest.raises(MalformedModel, match=words):
        DecoderConfig.from_hf(LLAMA | change)


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
        DecoderConfig.from_gguf(GGUF | change, ())


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)  # fmt: skip


@given(st.sampled_from([*sorted(LLAMA), "rope_scaling", "rope_parameters", "head_dim", "hidden_act"]), JUNK)
def test_any_value_in_any_field_is_read_or_refused(name: str, value: Any) -> None:
    """No value, of whatever type, ends in anything but a config or a ModelFileError."""
    try:
        config = DecoderConfig.from_hf(LLAMA | {name: value})
    except ModelFileError:
        return
    assert len(config.inverse_frequencies()) == config.head_dim // 2


@given(st.sampled_from([*sorted(GGUF), "llama.rope.scaling.type", "llama.rope.scaling.factor"]), JUNK)
def test_any_value_in_gguf_metadata_is_read_or_refused(name: str, value: Any) -> None:
    """The same holds for GGUF metadata."""
    try:
        DecoderConfig.from_gguf(GGUF | {name: value}, ())
    except ModelFileError:
        return


def test_a_config_cannot_be_changed() -> None:
    """The config is frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        DecoderConfig.from_hf(LLAMA).num_layers = 3  # type: ignore[misc]


def test_configs_are_read_without_torch_or_numpy() -> None:
    """`headway model inspect` runs where neither is installed."""
    code = (
        "import sys; sys.modules.update(torch=None, numpy=None, gguf=None, safetensors=None, tokenizers=None)\n"
        "import services.executor.weights.inspection"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
