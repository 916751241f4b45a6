"""A decoder described by data: the differences within the Llama family are fields, not subclasses.

Needs neither torch nor numpy: `headway model inspect` reads a config.json or a GGUF header on any machine.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from services.executor.models import rope_scaling
from services.executor.models.rope_scaling import MAX_CONTEXT_LENGTH, RopeScaling
from services.executor.weights.errors import MalformedModel, UnsupportedModel
from services.executor.weights.fields import Fields

HF_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
GGUF_FAMILIES = ("llama", "qwen2", "qwen3")

_MAX_VOCAB = 1 << 22
_MAX_WIDTH = 1 << 17
_MAX_INTERMEDIATE = 1 << 20
_MAX_LAYERS = 1024
_MAX_HEADS = 1024
_MAX_HEAD_DIM = 1024
_MISTRAL_WINDOW = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """The shape of one decoder. Every linear weight is [out, in]; rotary halves are split, not interleaved.

    `context_length` is what may be served. Attention is always over the whole context, so a model with a sliding window
    is served up to its window: within it, windowed and full attention are the same function.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    context_length: int
    norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    tie_embeddings: bool = False
    sliding_window: int | None = None
    activation: str = "silu"
    eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise MalformedModel(f"{self.num_heads} attention heads do not divide among {self.num_kv_heads} KV heads")
        if self.head_dim % 2:
            raise MalformedModel(f"a head of {self.head_dim} dimensions has no two rotary halves")
        scaling = self.rope_scaling
        if scaling is not None and scaling.kind == "divisors" and len(scaling.divisors) != self.head_dim // 2:
            raise MalformedModel(f"{len(scaling.divisors)} rotary divisors for a head of {self.head_dim} dimensions")

    @property
    def q_size(self) -> int:
        """Rows of the query projection."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Rows of the key projection, and of the value projection."""
        return self.num_kv_heads * self.head_dim

    @property
    def rope_attention_factor(self) -> float:
        """What cosines and sines are multiplied by (1 but for YaRN)."""
        return 1.0 if self.rope_scaling is None else self.rope_scaling.attention_factor

    def inverse_frequencies(self) -> tuple[float, ...]:
        """The head_dim / 2 rotary frequencies in radians per position, scaling applied."""
        plain = tuple(self.rope_theta ** (-2 * index / self.head_dim) for index in range(self.head_dim // 2))
        return plain if self.rope_scaling is None else self.rope_scaling.scaled(plain, self.rope_theta)

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "DecoderConfig":
        """Reads a Hugging Face config.json (either format of rotary parameters).

        Raises:
            UnsupportedModel: the model is outside the supported families.
            MalformedModel: a field is missing, of the wrong type, or out of range.
        """
        fields = Fields(config, "config.json")
        family = fields.text("model_type")
        if family not in HF_FAMILIES:
            known = ", ".join(HF_FAMILIES)
            raise UnsupportedModel(f"config.json: model_type {family[:40]!r} is not supported; supported: {known}")
        _refuse_hf_features(fields)
        hidden_size = fields.integer("hidden_size", 1, _MAX_WIDTH)
        num_heads = fields.integer("num_attention_heads", 1, _MAX_HEADS)
        vocab_size = fields.integer("vocab_size", 1, _MAX_VOCAB)
        trained_length = fields.integer("max_position_embeddings", 1, MAX_CONTEXT_LENGTH)
        theta, scaling = _hf_rope(fields, trained_length)
        window = _hf_window(fields, family)
        attention_bias = fields.flag("attention_bias", False)
        return cls(
            architecture=family,
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            num_layers=fields.integer("num_hidden_layers", 1, _MAX_LAYERS),
            num_heads=num_heads,
            num_kv_heads=_kv_heads(fields, "num_key_value_heads", num_heads),
            head_dim=fields.integer("head_dim", 2, _MAX_HEAD_DIM, _head_dim(hidden_size, num_heads, family)),
            intermediate_size=fields.integer("intermediate_size", 1, _MAX_INTERMEDIATE),
            context_length=_served_length(trained_length, scaling, window),
            norm_eps=fields.number("rms_norm_eps", 0.0, 1.0, 1e-6),
            rope_theta=theta,
            rope_scaling=scaling,
            qkv_bias=family == "qwen2" or (attention_bias and family != "mistral"),
            o_bias=attention_bias and family in ("llama", "qwen3"),
            mlp_bias=family == "llama" and fields.flag("mlp_bias", False),
            qk_norm=family == "qwen3",
            tie_embeddings=fields.flag("tie_word_embeddings", False),
            sliding_window=window,
            eos_ids=fields.token_ids("eos_token_id", vocab_size),
        )

    @classmethod
    def from_gguf(
        cls, metadata: Mapping[str, Any], tensor_names: Collection[str], rope_divisors: tuple[float, ...] = ()
    ) -> "DecoderConfig":
        """Reads GGUF metadata; which tensors exist says what it leaves open (biases, tied embeddings).

        `rope_divisors` are the values of the tensor `rope_freqs.weight` where the file has it.
        Raises as `from_hf`.
        """
        family = Fields(metadata, "GGUF").text("general.architecture")
        if family not in GGUF_FAMILIES:
            known = ", ".join(GGUF_FAMILIES)
            raise UnsupportedModel(f"GGUF: architecture {family[:40]!r} is not supported; supported: {known}")
        fields = Fields(metadata, "GGUF", prefix=family + ".")
        if fields.integer("expert_count", 0, 1 << 20, 0) > 0:
            raise UnsupportedModel("GGUF: mixture-of-experts models are not supported yet; use a dense model")
        hidden_size = fields.integer("embedding_length", 1, _MAX_WIDTH)
        num_heads = fields.integer("attention.head_count", 1, _MAX_HEADS)
        head_dim = fields.integer("attention.key_length", 2, _MAX_HEAD_DIM, hidden_size // num_heads)
        for name in ("attention.value_length", "rope.dimension_count"):
            if fields.integer(name, 1, _MAX_HEAD_DIM, head_dim) != head_dim:
                raise UnsupportedModel(f"GGUF: {family}.{name} differs from the head's size {head_dim}; not supported")
        trained_length = fields.integer("context_length", 1, MAX_CONTEXT_LENGTH)
        scaling = rope_scaling.from_gguf(fields, rope_divisors, trained_length)
        window = fields.integer("attention.sliding_window", 0, MAX_CONTEXT_LENGTH, 0) or None
        tokens = metadata.get("tokenizer.ggml.tokens")
        vocab_size = fields.integer("vocab_size", 1, _MAX_VOCAB, len(tokens) if tokens is not None else None)
        token_fields = Fields(metadata, "GGUF", prefix="tokenizer.ggml.")
        eos = [i for n in _GGUF_END_TOKENS for i in token_fields.token_ids(n, vocab_size)]
        return cls(
            architecture=family,
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            num_layers=fields.integer("block_count", 1, _MAX_LAYERS),
            num_heads=num_heads,
            num_kv_heads=_kv_heads(fields, "attention.head_count_kv", num_heads),
            head_dim=head_dim,
            intermediate_size=fields.integer("feed_forward_length", 1, _MAX_INTERMEDIATE),
            context_length=_served_length(trained_length, scaling, window),
            norm_eps=fields.number("attention.layer_norm_rms_epsilon", 0.0, 1.0),
            rope_theta=fields.number("rope.freq_base", 1.0001, 1e12, 10000.0),
            rope_scaling=scaling,
            qkv_bias="blk.0.attn_q.bias" in tensor_names,
            o_bias="blk.0.attn_output.bias" in tensor_names,
            mlp_bias="blk.0.ffn_gate.bias" in tensor_names,
            qk_norm="blk.0.attn_q_norm.weight" in tensor_names,
            tie_embeddings="output.weight" not in tensor_names,
            sliding_window=window,
            eos_ids=tuple(dict.fromkeys(eos)),
        )


_GGUF_END_TOKENS = ("eos_token_id", "eot_token_id", "eom_token_id", "eos_token_ids")


def _refuse_hf_features(fields: Fields) -> None:
    for name in ("hidden_act", "hidden_activation"):
        activation = fields.text(name, "silu")
        if activation not in ("silu", "swish"):
            raise UnsupportedModel(f"config.json: {name} {activation[:40]!r} is not supported; supported: silu")
    for name in ("num_local_experts", "num_experts", "n_routed_experts"):
        if fields.integer(name, 0, 1 << 20, 0) > 0:
            raise UnsupportedModel(f"config.json: {name} is set, but mixture-of-experts models are not supported yet")
    if "quantization_config" in fields:
        raise UnsupportedModel("config.json: quantization_config is set; use unquantized safetensors or a GGUF file")


def _hf_rope(fields: Fields, trained_length: int) -> tuple[float, RopeScaling | None]:
    rope = fields.section("rope_parameters") or fields.section("rope_scaling")
    theta = fields.number("rope_theta", 1.0001, 1e12, 10000.0)
    if rope is None:
        return theta, None
    if any(isinstance(rope.raw(name), dict) for name in ("full_attention", "sliding_attention")):
        raise UnsupportedModel("config.json: rotary parameters differ between layers; that is not supported")
    return rope.number("rope_theta", 1.0001, 1e12, theta), rope_scaling.from_hf(rope, trained_length)


def _hf_window(fields: Fields, family: str) -> int | None:
    """The sliding window in tokens. Qwen names one and switches it off; Mistral has one where the field is left out."""
    if family == "llama" or (family.startswith("qwen") and not fields.flag("use_sliding_window", False)):
        return None
    if family == "mistral" and "sliding_window" not in fields:
        return None if fields.is_null("sliding_window") else _MISTRAL_WINDOW
    return fields.integer("sliding_window", 1, MAX_CONTEXT_LENGTH)


def _kv_heads(fields: Fields, name: str, num_heads: int) -> int:
    return fields.integer(name, 1, num_heads, num_heads)


def _head_dim(hidden_size: int, num_heads: int, family: str) -> int:
    return 128 if family == "qwen3" else hidden_size // num_heads


def _served_length(trained_length: int, scaling: RopeScaling | None, window: int | None) -> int:
    length = trained_length
    if scaling is not None and scaling.kind == "yarn":
        length = max(length, int(scaling.factor * scaling.original_context_length))
    return min(length if window is None else min(length, window), MAX_CONTEXT_LENGTH)
