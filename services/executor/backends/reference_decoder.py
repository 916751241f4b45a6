"""One decoder for the whole Llama family, described by a `DecoderConfig`, on the reference kernels."""

from collections.abc import MutableMapping
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels import reference
from services.executor.backends.reference_batch import Batch
from services.executor.backends.reference_kv_cache import KvCache
from services.executor.models.config import DecoderConfig
from services.executor.models.positions import MAX_CONTEXT_LENGTH
from services.executor.models.rotary import cosines, sines

_CACHE_LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class _Linear:
    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return reference.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class _Layer:
    attn_norm: Tensor
    qkv: _Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    o: _Linear
    mlp_norm: Tensor
    gate_up: _Linear
    down: _Linear


class Decoder:
    """Weights in the layout that the kernels read, and the forward pass over a batch."""

    def __init__(
        self, config: DecoderConfig, tensors: MutableMapping[str, Tensor], pool_tokens: int = MAX_CONTEXT_LENGTH
    ) -> None:
        """Takes the tensors (canonical names, float32) out of `tensors` as it goes, so that few exist twice.

        No position can pass the `pool_tokens` that the KV cache holds.
        """
        self.config = config
        self.num_positions = min(config.context_length, pool_tokens)
        self._embedding = _aligned(tensors.pop("embed.weight"))
        self._layers = [_take_layer(tensors, f"layers.{index}.") for index in range(config.num_layers)]
        self._final_norm = _aligned(tensors.pop("final_norm.weight"))
        self._lm_head = self._embedding if config.tie_embeddings else _aligned(tensors.pop("lm_head.weight"))
        self._cos, self._sin = (
            torch.from_numpy(table(config, self.num_positions)).unsqueeze(1) for table in (cosines, sines)
        )

    def forward(self, batch: Batch, cache: KvCache) -> Tensor:
        """Computes a batch: stores its keys and values in `cache`, returns [rows, hidden] after the last norm."""
        cos, sin = self._cos[batch.positions], self._sin[batch.positions]
        x = self._embedding[batch.token_ids]
        for index, layer in enumerate(self._layers):
            normed = reference.rms_norm(x, layer.attn_norm, self.config.norm_eps)
            query, key, value = self._project(layer, normed, cos, sin)
            keys, values = cache.layer(index)
            # A weight of zero makes no infinity zero: who sees the token meets its key, and nobody its value.
            spoiled = ~(key.isfinite().all(-1, keepdim=True) & value.isfinite().all(-1, keepdim=True))
            reference.write_kv(keys, batch.kv_rows, key.masked_fill(spoiled, torch.nan))
            reference.write_kv(values, batch.kv_rows, value.masked_fill(spoiled, 0.0))
            attended = reference.attention(query, keys, values, batch.runs)
            x = x + layer.o(attended.flatten(1))
            normed = reference.rms_norm(x, layer.mlp_norm, self.config.norm_eps)
            x = x + layer.down(reference.gated(layer.gate_up(normed)))
        return reference.rms_norm(x, self._final_norm, self.config.norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, vocabulary] of [rows, hidden], any number of rows."""
        rows = hidden.shape[0]
        padding = reference.padded_rows(rows) - rows
        padded = torch.nn.functional.pad(hidden, (0, 0, 0, padding))
        return reference.linear(padded, self._lm_head)[:rows]

    def _project(self, layer: _Layer, normed: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of the rows, [rows, heads, head_dim] each."""
        config = self.config
        qkv = layer.qkv(normed).view(len(normed), -1, config.head_dim)
        first_key, first_value = config.num_heads, config.num_heads + config.num_kv_heads
        query, key, value = qkv[:, :first_key], qkv[:, first_key:first_value], qkv[:, first_value:]
        if layer.q_norm is not None and layer.k_norm is not None:
            query = reference.rms_norm(query, layer.q_norm, config.norm_eps)
            key = reference.rms_norm(key, layer.k_norm, config.norm_eps)
        return reference.rotate(query, cos, sin), reference.rotate(key, cos, sin), value


def _take_layer(tensors: MutableMapping[str, Tensor], prefix: str) -> _Layer:
    def take(name: str) -> Tensor:
        return _aligned(tensors.pop(prefix + name))

    def fused(*names: str) -> _Linear:
        weights = [tensors.pop(f"{prefix}{name}.weight") for name in names]
        biases = [tensors.pop(f"{prefix}{name}.bias", None) for name in names]
        known = [bias for bias in biases if bias is not None]
        assert len(known) in (0, len(names)), "projections that are computed together have biases together"
        return _Linear(weight=torch.cat(weights), bias=torch.cat(known) if known else None)

    return _Layer(
        attn_norm=take("attn_norm.weight"),
        qkv=fused("q", "k", "v"),
        q_norm=take("q_norm.weight") if prefix + "q_norm.weight" in tensors else None,
        k_norm=take("k_norm.weight") if prefix + "k_norm.weight" in tensors else None,
        o=fused("o"),
        mlp_norm=take("mlp_norm.weight"),
        gate_up=fused("gate", "up"),
        down=fused("down"),
    )


def _aligned(tensor: Tensor) -> Tensor:
    """The tensor where a matrix library finds it as it finds any other: its choice of kernel may look at addresses."""
    aligned = tensor.contiguous()
    return aligned if aligned.data_ptr() % _CACHE_LINE_BYTES == 0 else aligned.clone()
