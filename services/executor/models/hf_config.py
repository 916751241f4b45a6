"""Reads a decoder's config from a Hugging Face config.json."""

from collections.abc import Mapping
from typing import Any

from services.executor.models.config import (
    MAX_EXPERTS,
    MAX_HEAD_DIM,
    MAX_HEADS,
    MAX_INTERMEDIATE,
    MAX_LAYERS,
    MAX_VOCAB,
    MAX_WIDTH,
    DecoderConfig,
)
from services.executor.models.positions import MAX_CONTEXT_LENGTH, Positions
from services.executor.models.rope_scaling import RopeScaling, yarn_attention_factor
from services.executor.weights.errors import UnsupportedModel
from services.executor.weights.fields import Fields

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_ACTIVATIONS = ("silu", "swish")  # two names for one
_ROPE_TYPES = "default, linear, llama3, yarn"
_QWEN3_HEAD_DIM = 128  # where the field is left out
_MISTRAL_WINDOW = 4096  # the same


def read_hf_config(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that a config.json describes (in either format of rotary parameters).

    Raises:
        UnsupportedModel: the model is outside the supported families.
        MalformedModel: a field is missing, of the wrong type, or out of range.
    """
    fields = Fields(config, "config.json")
    family = fields.one_of("model_type", FAMILIES)
    _refuse_features(fields)
    hidden_size = fields.integer("hidden_size", 1, MAX_WIDTH)
    num_heads = fields.integer("num_attention_heads", 1, MAX_HEADS)
    head_dim = _QWEN3_HEAD_DIM if family == "qwen3" else hidden_size // num_heads
    vocab_size = fields.integer("vocab_size", 1, MAX_VOCAB)
    positions = _positions(fields, family)
    attention_bias = fields.flag("attention_bias", False)
    return DecoderConfig(
        architecture=family,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_layers=fields.integer("num_hidden_layers", 1, MAX_LAYERS),
        num_heads=num_heads,
        num_kv_heads=fields.integer("num_key_value_heads", 1, num_heads, num_heads),
        head_dim=fields.integer("head_dim", 2, MAX_HEAD_DIM, head_dim),
        intermediate_size=fields.integer("intermediate_size", 1, MAX_INTERMEDIATE),
        context_length=positions.context_length,
        norm_eps=fields.number("rms_norm_eps", 0.0, 1.0, 1e-6),
        rope_theta=positions.theta,
        rope_scaling=positions.scaling,
        qkv_bias=family == "qwen2" or (attention_bias and family != "mistral"),
        o_bias=attention_bias and family in ("llama", "qwen3"),
        mlp_bias=family == "llama" and fields.flag("mlp_bias", False),
        qk_norm=family == "qwen3",
        tie_embeddings=fields.flag("tie_word_embeddings", False),
        sliding_window=positions.window,
        eos_ids=fields.token_ids("eos_token_id", vocab_size),
    )


def _refuse_features(fields: Fields) -> None:
    for name in ("hidden_act", "hidden_activation"):
        fields.one_of(name, _ACTIVATIONS, "silu")
    for name in ("num_local_experts", "num_experts", "n_routed_experts"):
        if fields.integer(name, 0, MAX_EXPERTS, 0) > 0:
            raise UnsupportedModel(f"config.json: {name} is set, but mixture-of-experts models are not supported yet")
    if "quantization_config" in fields:
        raise UnsupportedModel("config.json: quantization_config is set; use unquantized safetensors or a GGUF file")


def _positions(fields: Fields, family: str) -> Positions:
    trained_length = fields.integer("max_position_embeddings", 1, MAX_CONTEXT_LENGTH)
    theta = fields.number("rope_theta", 1.0001, 1e12, 10000.0)
    scaling = None
    rope = fields.section("rope_parameters") or fields.section("rope_scaling")
    if rope is not None:
        if any(isinstance(rope.raw(name), dict) for name in ("full_attention", "sliding_attention")):
            raise UnsupportedModel("config.json: rotary parameters differ between layers; that is not supported")
        theta = rope.number("rope_theta", 1.0001, 1e12, theta)
        scaling = _scaling(rope, trained_length)
    return Positions(trained_length=trained_length, theta=theta, scaling=scaling, window=_window(fields, family))


def _window(fields: Fields, family: str) -> int | None:
    """The sliding window in tokens. Qwen names one and switches it off; Mistral has one where the field is left out."""
    if family == "llama" or (family.startswith("qwen") and not fields.flag("use_sliding_window", False)):
        return None
    if family == "mistral" and "sliding_window" not in fields:
        return None if fields.is_null("sliding_window") else _MISTRAL_WINDOW
    return fields.integer("sliding_window", 1, MAX_CONTEXT_LENGTH)


def _scaling(fields: Fields, trained_length: int) -> RopeScaling | None:
    """Reads `rope_scaling`, or the `rope_parameters` that newer files have in its place; None means plain rotation."""
    kind = fields.text("rope_type", fields.text("type", "default"))
    factor = fields.number("factor", 1.0, 1e6) if kind in ("linear", "llama3", "yarn") else 1.0
    if fields.number("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0:
        raise UnsupportedModel("config.json: partial_rotary_factor is set; Headway rotates whole heads only")
    match kind:
        case "default":
            return None
        case "linear":
            return RopeScaling(kind="linear", factor=factor)
        case "llama3":
            low = fields.number("low_freq_factor", 1e-3, 1e6)
            return RopeScaling(
                kind="llama3",
                factor=factor,
                low_freq_factor=low,
                high_freq_factor=fields.number("high_freq_factor", low * 1.0001, 1e6),
                original_context_length=fields.integer("original_max_position_embeddings", 1, MAX_CONTEXT_LENGTH),
            )
        case "yarn":
            return _yarn(fields, factor, trained_length)
    raise UnsupportedModel(f"config.json: rope type {kind[:40]!r} is not supported; supported: {_ROPE_TYPES}")


def _yarn(fields: Fields, factor: float, trained_length: int) -> RopeScaling:
    mscale, mscale_all = fields.number("mscale", 0.0, 1e3, 0.0), fields.number("mscale_all_dim", 0.0, 1e3, 0.0)
    attention_factor = yarn_attention_factor(factor)
    if mscale and mscale_all:
        attention_factor = yarn_attention_factor(factor, mscale) / yarn_attention_factor(factor, mscale_all)
    beta_slow = fields.number("beta_slow", 1e-3, 1e6, 1.0)
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_context_length=fields.integer(
            "original_max_position_embeddings", 1, MAX_CONTEXT_LENGTH, trained_length
        ),
        beta_fast=fields.number("beta_fast", beta_slow, 1e6, 32.0),
        beta_slow=beta_slow,
        truncate=fields.flag("truncate", True),
        attention_factor=fields.number("attention_factor", 1e-3, 1e3, attention_factor),
    )
