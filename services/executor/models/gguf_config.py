"""Reads a decoder's config from the metadata of a GGUF file."""

from collections.abc import Collection, Mapping
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

FAMILIES = ("llama", "qwen2", "qwen3")
_SCALINGS = ("none", "linear", "yarn")
_END_TOKENS = ("eos_token_id", "eot_token_id", "eom_token_id", "eos_token_ids")


def read_gguf_config(
    metadata: Mapping[str, Any], tensor_names: Collection[str], rope_divisors: tuple[float, ...] = ()
) -> DecoderConfig:
    """The decoder that GGUF metadata describes; which tensors exist says what it leaves open (biases, tied embeddings).

    `rope_divisors` are the values of the tensor `rope_freqs.weight` where the file has it.

    Raises:
        UnsupportedModel: the model is outside the supported families.
        MalformedModel: a field is missing, of the wrong type, or out of range.
    """
    family = Fields(metadata, "GGUF").one_of("general.architecture", FAMILIES)
    fields = Fields(metadata, "GGUF", prefix=family + ".")
    if fields.integer("expert_count", 0, MAX_EXPERTS, 0) > 0:
        raise UnsupportedModel("GGUF: mixture-of-experts models are not supported yet; use a dense model")
    hidden_size = fields.integer("embedding_length", 1, MAX_WIDTH)
    num_heads = fields.integer("attention.head_count", 1, MAX_HEADS)
    positions = _positions(fields, rope_divisors)
    vocab_size = _vocab_size(metadata, fields)
    return DecoderConfig(
        architecture=family,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_layers=fields.integer("block_count", 1, MAX_LAYERS),
        num_heads=num_heads,
        num_kv_heads=fields.integer("attention.head_count_kv", 1, num_heads, num_heads),
        head_dim=_head_dim(fields, family, hidden_size // num_heads),
        intermediate_size=fields.integer("feed_forward_length", 1, MAX_INTERMEDIATE),
        context_length=positions.context_length,
        norm_eps=fields.number("attention.layer_norm_rms_epsilon", 0.0, 1.0),
        rope_theta=positions.theta,
        rope_scaling=positions.scaling,
        qkv_bias="blk.0.attn_q.bias" in tensor_names,
        o_bias="blk.0.attn_output.bias" in tensor_names,
        mlp_bias="blk.0.ffn_gate.bias" in tensor_names,
        qk_norm="blk.0.attn_q_norm.weight" in tensor_names,
        tie_embeddings="output.weight" not in tensor_names,
        sliding_window=positions.window,
        eos_ids=_eos_ids(metadata, vocab_size),
    )


def _head_dim(fields: Fields, family: str, default: int) -> int:
    head_dim = fields.integer("attention.key_length", 2, MAX_HEAD_DIM, default)
    for name in ("attention.value_length", "rope.dimension_count"):
        if fields.integer(name, 1, MAX_HEAD_DIM, head_dim) != head_dim:
            raise UnsupportedModel(f"GGUF: {family}.{name} differs from the head's size {head_dim}; not supported")
    return head_dim


def _vocab_size(metadata: Mapping[str, Any], fields: Fields) -> int:
    tokens = metadata.get("tokenizer.ggml.tokens")
    return fields.integer("vocab_size", 1, MAX_VOCAB, len(tokens) if isinstance(tokens, list) else None)


def _eos_ids(metadata: Mapping[str, Any], vocab_size: int) -> tuple[int, ...]:
    """Every token that ends an answer, once."""
    fields = Fields(metadata, "GGUF", prefix="tokenizer.ggml.")
    return tuple(dict.fromkeys(token_id for name in _END_TOKENS for token_id in fields.token_ids(name, vocab_size)))


def _positions(fields: Fields, rope_divisors: tuple[float, ...]) -> Positions:
    trained_length = fields.integer("context_length", 1, MAX_CONTEXT_LENGTH)
    return Positions(
        trained_length=trained_length,
        theta=fields.number("rope.freq_base", 1.0001, 1e12, 10000.0),
        scaling=_scaling(fields, rope_divisors, trained_length),
        window=fields.integer("attention.sliding_window", 0, MAX_CONTEXT_LENGTH, 0) or None,
    )


def _scaling(fields: Fields, divisors: tuple[float, ...], trained_length: int) -> RopeScaling | None:
    """Reads `<architecture>.rope.scaling.*`; `divisors` is the file's rope_freqs tensor (how llama3 is stored)."""
    kind = fields.text("rope.scaling.type", "none")
    factor = fields.number("rope.scaling.factor", 0.0, 1e6, fields.number("rope.scale_linear", 0.0, 1e6, 1.0)) or 1.0
    if divisors:
        if kind not in ("none", "llama3") and factor != 1.0:
            raise UnsupportedModel(f"GGUF: rope_freqs together with {kind[:40]!r} scaling is not supported")
        return RopeScaling(kind="divisors", divisors=divisors)
    fields.one_of("rope.scaling.type", _SCALINGS, "none")
    if kind == "none" or factor == 1.0:
        return None
    if kind == "linear":
        return RopeScaling(kind="linear", factor=factor)
    if fields.number("rope.scaling.yarn_log_multiplier", -1e6, 1e6, 0.0) != 0.0:
        raise UnsupportedModel("GGUF: rope.scaling.yarn_log_multiplier is not supported")
    own = fields.number("rope.scaling.attn_factor", 1e-3, 1e3, 1.0)
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_context_length=fields.integer(
            "rope.scaling.original_context_length", 1, MAX_CONTEXT_LENGTH, trained_length
        ),
        attention_factor=own * yarn_attention_factor(factor),
    )
