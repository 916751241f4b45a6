"""The CPU back end: compiled kernels over weights in their own precision."""

import time
from collections.abc import Sequence
from threading import Thread

import numpy as np
import numpy.typing as npt

from kernels.cpu.library import CpuLibrary, DType, Linear, NotFinite
from kernels.cpu.model import SEQUENCE, KvCache, LinearRole, Model, ModelShape, VectorRole
from kernels.cpu.sampling import DRAW, draw
from services.executor.backends.backend import Ints, Rows
from services.executor.backends.workers import Workers
from services.executor.blocks import BLOCK_SIZE
from services.executor.models.config import DecoderConfig
from services.executor.models.memory import kv_dtype
from services.executor.models.positions import MAX_CONTEXT_LENGTH
from services.executor.models.rotary import cosines, sines
from services.executor.sampling import Draw
from services.executor.weights.errors import MalformedModel
from services.executor.weights.stored_tensor import StoredTensor, StoredWeights
from services.executor.work import Work

_LINEARS = {
    LinearRole.QKV: ("q", "k", "v"),
    LinearRole.O: ("o",),
    LinearRole.GATE_UP: ("gate", "up"),
    LinearRole.DOWN: ("down",),
}


class CpuBackend:
    """A `Backend` on the compiled kernels."""

    def __init__(self, model: Model, num_blocks: int, library: CpuLibrary) -> None:
        self._model = model
        self._library = library
        self._workers = Workers(library.threads)
        self._are_helped = True
        self.kv_cache = KvCache(model.shape, num_blocks)
        self.num_blocks = num_blocks
        self.num_positions = model.shape.context
        kv_bytes = self.kv_cache.keys.nbytes + self.kv_cache.values.nbytes
        self.bytes_per_token = kv_bytes // (num_blocks * BLOCK_SIZE)

    def settle(self) -> None:
        """The cache gets its memory before requests need it: else each block's first tokens wait for the system."""
        Thread(target=self._populate, name="populate", daemon=True).start()

    def _populate(self) -> None:
        for half in (self.kv_cache.keys, self.kv_cache.values):
            self._library.populate(half)

    def forward(self, work: Sequence[Work], wanted: Ints) -> Rows:
        token_ids: list[int] = []
        parts: list[tuple[int, int, int, int, int]] = []
        for item in work:
            slot, start, count = item.slot, item.start, item.count
            parts.append((len(token_ids), count, start, 0, slot.blocks_address))
            if count == 1:  # decoding; many sequences do
                token_ids.append(slot.token_buffer.item(start))
            else:
                token_ids += slot.token_buffer[start : start + count].tolist()
        sequences = np.array(parts, SEQUENCE)
        ahead = sequences["start"] - sequences["first_row"]  # of its row, each position of a sequence
        positions = np.arange(len(token_ids), dtype=np.int32) + np.repeat(ahead, sequences["count"])
        rows = len(token_ids)
        self._are_helped = self._workers.help_with(rows)
        began = time.perf_counter()
        hidden = self._model.forward(
            np.array(token_ids, np.int32), positions, sequences, wanted, self.kv_cache, alone=not self._are_helped
        )
        self._workers.took(rows, time.perf_counter() - began, together=self._are_helped)
        return hidden

    def logits(self, hidden: Rows) -> Rows:
        return self._model.logits(hidden, alone=not self._are_helped)

    def best(self, logits: Rows, rows: Ints) -> Ints:
        return self._model.best(logits, rows)

    def draw(self, logits: Rows, rows: Ints, draws: Sequence[Draw], *, are_masked: bool = False) -> Ints:
        wanted = [
            (each.sampling.temperature, each.sampling.top_p, each.sampling.min_p, each.uniform, each.sampling.top_k)
            for each in draws
        ]
        return draw(logits, rows, np.array(wanted, DRAW), are_masked=are_masked)


def pack_model(
    library: CpuLibrary,
    config: DecoderConfig,
    weights: StoredWeights,
    dtype: DType,
    pool_tokens: int = MAX_CONTEXT_LENGTH,
) -> Model:
    """Packs a model's weights for the kernels.

    Args:
        library: the compiled kernels.
        config: of the model.
        weights: of the model.
        dtype: "auto" keeps each tensor as it is stored; "bfloat16" and "float32" convert all.
        pool_tokens: that the KV cache will hold; no position can pass them.

    Raises:
        MalformedModel: a tensor holds numbers that are not finite, or too large for the precision.
    """
    packer = _Packer(library, weights, dtype)
    model = Model(library, _shape(config, dtype, min(config.context_length, pool_tokens)))
    for layer in range(config.num_layers):
        for role, names in _LINEARS.items():
            model.set_linear(role, packer.linear([f"layers.{layer}.{name}" for name in names]), layer)
        model.set_vector(VectorRole.ATTN_NORM, packer.vector(f"layers.{layer}.attn_norm.weight"), layer)
        model.set_vector(VectorRole.MLP_NORM, packer.vector(f"layers.{layer}.mlp_norm.weight"), layer)
        if config.qk_norm:
            model.set_vector(VectorRole.Q_NORM, packer.vector(f"layers.{layer}.q_norm.weight"), layer)
            model.set_vector(VectorRole.K_NORM, packer.vector(f"layers.{layer}.k_norm.weight"), layer)
    embedding = packer.linear(["embed"])
    model.set_linear(LinearRole.EMBEDDING, embedding)
    model.set_linear(LinearRole.LM_HEAD, embedding if config.tie_embeddings else packer.linear(["lm_head"]))
    model.set_vector(VectorRole.FINAL_NORM, packer.vector("final_norm.weight"))
    model.set_vector(VectorRole.COS, cosines(config, model.shape.context))
    model.set_vector(VectorRole.SIN, sines(config, model.shape.context))
    return model


def _shape(config: DecoderConfig, dtype: DType, num_positions: int) -> ModelShape:
    """What the kernels are told of a model."""
    return ModelShape(
        num_layers=config.num_layers,
        hidden=config.hidden_size,
        inner=config.intermediate_size,
        heads=config.num_heads,
        kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        vocab=config.vocab_size,
        context=num_positions,
        norm_eps=config.norm_eps,
        kv_is_bf16=kv_dtype(dtype) == "bfloat16",
    )


class _Packer:
    def __init__(self, library: CpuLibrary, weights: StoredWeights, dtype: DType) -> None:
        self._library = library
        self._weights = weights
        self._dtype = dtype

    def linear(self, names: Sequence[str]) -> Linear:
        """Projections that read the same input, as one."""
        packed: Linear | None = None
        biases: list[npt.NDArray[np.float32]] = []
        for name in names:
            stored = self._weights.tensor(f"{name}.weight")
            packed = packed or self._library.linear(stored.columns)
            try:
                packed.add_segment(stored.kind, stored.rows, stored.data, self._dtype)
            except NotFinite:
                kept_as = "" if self._dtype == "auto" else f" in {self._dtype}"
                raise MalformedModel(f"the tensor {name}.weight holds numbers that are not finite{kept_as}") from None
            if self._weights.has(f"{name}.bias"):
                biases.append(self.vector(f"{name}.bias"))
        assert packed is not None
        assert len(biases) in (0, len(names)), "projections that are computed together have biases together"
        if biases:
            packed.set_bias(np.concatenate(biases))
        return packed

    def vector(self, name: str) -> npt.NDArray[np.float32]:
        values = _floats(self._weights.tensor(name))
        if not np.isfinite(values).all():
            raise MalformedModel(f"the tensor {name} holds numbers that are not finite")
        return values


def _floats(stored: StoredTensor) -> npt.NDArray[np.float32]:
    """The values of a tensor of a float kind."""
    match stored.kind:
        case "F32":
            return stored.data.reshape(-1).view(np.float32)
        case "F16":
            return stored.data.reshape(-1).view(np.float16).astype(np.float32)
        case "BF16":
            return (stored.data.reshape(-1).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        case _:
            raise MalformedModel(f"a norm or bias is stored as {stored.kind}; it must be a float type")
