"""A config.json of the Llama family is read right, and what is not supported is named."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM

from services.executor.models.config import DecoderConfig
from services.executor.models.hf_config import read_hf_config
from services.executor.weights.errors import MalformedModel, ModelFileError, UnsupportedModel
from tests.unit.executor.models.configs import JUNK, LLAMA, SCALINGS


def test_a_llama_config_is_read_field_by_field() -> None:
    """What config.json says is in the config, and what it leaves open has the family's defaults."""
    config = read_hf_config(LLAMA)
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
    config = read_hf_config(values)
    assert np.allclose(config.inverse_frequencies(), rotary.inv_freq.numpy(), rtol=2e-6, atol=0)
    assert config.rope_attention_factor == pytest.approx(rotary.attention_scaling)


def test_a_config_that_transformers_wrote_is_read(tmp_path) -> None:
    """Transformers' own newest config.json of each family is understood."""
    for family in ("llama", "mistral", "qwen2", "qwen3"):
        values = AutoConfig.for_model(**(LLAMA | {"model_type": family})).to_dict()
        config = read_hf_config(values)
        assert (config.architecture, config.rope_theta, config.num_kv_heads) == (family, 500000.0, 2)
        assert (config.qkv_bias, config.qk_norm) == (family == "qwen2", family == "qwen3")
        assert config.head_dim == (128 if family == "qwen3" else 32)


def test_a_sliding_window_limits_the_context() -> None:
    """A model is served up to its window, within which windowed and full attention are the same."""
    mistral = LLAMA | {"model_type": "mistral"}
    assert read_hf_config(mistral | {"sliding_window": 512}).context_length == 512
    assert read_hf_config(mistral | {"sliding_window": None}).context_length == 4096
    assert read_hf_config(mistral | {"max_position_embeddings": 32768}).sliding_window == 4096
    qwen = LLAMA | {"model_type": "qwen2", "sliding_window": 512}
    assert read_hf_config(qwen).context_length == 4096
    assert read_hf_config(qwen | {"use_sliding_window": True}).context_length == 512


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
        read_hf_config(LLAMA | change)


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
        read_hf_config(LLAMA | change)


@given(st.sampled_from([*sorted(LLAMA), "rope_scaling", "rope_parameters", "head_dim", "hidden_act"]), JUNK)
def test_any_value_in_any_field_is_read_or_refused(name: str, value: Any) -> None:
    """No value, of whatever type, ends in anything but a config or a ModelFileError."""
    try:
        config = read_hf_config(LLAMA | {name: value})
    except ModelFileError:
        return
    assert len(config.inverse_frequencies()) == config.head_dim // 2
