"""Which tensors a decoder has: their canonical names, their shapes, and what each file format calls them.

Needs neither torch nor numpy.
"""

from collections.abc import Collection, Iterator

from services.executor.models.config import DecoderConfig
from services.executor.weights.errors import MalformedModel

Shape = tuple[int, ...]

_TOP = {
    "embed.weight": ("model.embed_tokens.weight", "token_embd.weight"),
    "final_norm.weight": ("model.norm.weight", "output_norm.weight"),
    "lm_head.weight": ("lm_head.weight", "output.weight"),
}
_LAYER = {
    "attn_norm": ("input_layernorm", "attn_norm"),
    "q": ("self_attn.q_proj", "attn_q"),
    "k": ("self_attn.k_proj", "attn_k"),
    "v": ("self_attn.v_proj", "attn_v"),
    "o": ("self_attn.o_proj", "attn_output"),
    "q_norm": ("self_attn.q_norm", "attn_q_norm"),
    "k_norm": ("self_attn.k_norm", "attn_k_norm"),
    "mlp_norm": ("post_attention_layernorm", "ffn_norm"),
    "gate": ("mlp.gate_proj", "ffn_gate"),
    "up": ("mlp.up_proj", "ffn_up"),
    "down": ("mlp.down_proj", "ffn_down"),
}


def expected_shapes(config: DecoderConfig) -> dict[str, Shape]:
    """The shape of every tensor of the model, by canonical name; linear weights are [out, in]."""
    embedding = (config.vocab_size, config.hidden_size)
    shapes: dict[str, Shape] = {"embed.weight": embedding, "final_norm.weight": (config.hidden_size,)}
    if not config.tie_embeddings:
        shapes["lm_head.weight"] = embedding
    layer = dict(_layer_shapes(config))
    for index in range(config.num_layers):
        shapes |= {f"layers.{index}.{name}": shape for name, shape in layer.items()}
    return shapes


def _layer_shapes(config: DecoderConfig) -> Iterator[tuple[str, Shape]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    linears = {
        "q": (config.q_size, hidden, config.qkv_bias),
        "k": (config.kv_size, hidden, config.qkv_bias),
        "v": (config.kv_size, hidden, config.qkv_bias),
        "o": (hidden, config.q_size, config.o_bias),
        "gate": (inner, hidden, config.mlp_bias),
        "up": (inner, hidden, config.mlp_bias),
        "down": (hidden, inner, config.mlp_bias),
    }
    for name, (rows, columns, has_bias) in linears.items():
        yield f"{name}.weight", (rows, columns)
        if has_bias:
            yield f"{name}.bias", (rows,)
    yield "attn_norm.weight", (hidden,)
    yield "mlp_norm.weight", (hidden,)
    if config.qk_norm:
        yield "q_norm.weight", (config.head_dim,)
        yield "k_norm.weight", (config.head_dim,)


def hf_name(canonical: str) -> str:
    """What Hugging Face's safetensors files call a tensor."""
    if canonical in _TOP:
        return _TOP[canonical][0]
    _, index, module, kind = canonical.split(".")
    return f"model.layers.{index}.{_LAYER[module][0]}.{kind}"


def gguf_name(canonical: str) -> str:
    """What GGUF files call a tensor."""
    if canonical in _TOP:
        return _TOP[canonical][1]
    _, index, module, kind = canonical.split(".")
    return f"blk.{index}.{_LAYER[module][1]}.{kind}"


def is_interleaved(canonical: str, config: DecoderConfig) -> bool:
    """Whether GGUF files keep a head's rows of this tensor as rotary pairs, first and second half in turn."""
    return config.architecture == "llama" and canonical.split(".")[-2] in ("q", "k")


def check_names(wanted: Collection[str], found: Collection[str], source: str) -> None:
    """Refuses a file that lacks tensors of the model, or has some that the model does not use."""
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    for what, names in (("lacks tensors that its configuration asks for", missing), ("has unknown tensors", extra)):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            shown = ", ".join(name[:80] for name in names[:3])
            raise MalformedModel(f"{source} {what}: {shown}{more}; its parts do not belong together")


def check_shape(name: str, wanted: Shape, found: Shape, source: str) -> None:
    """Refuses a tensor of another shape than the configuration gives it."""
    if wanted != found:
        raise MalformedModel(f"{source}: {name[:80]} has the shape {found}, but the configuration asks for {wanted}")
