"""The reference back end: plain torch, right first."""

from collections.abc import Sequence

import torch

from services.executor.backends.backend import Ints, Rows
from services.executor.backends.best import best_ids
from services.executor.backends.drawn import drawn_ids
from services.executor.backends.reference_batch import build_batch
from services.executor.backends.reference_decoder import Decoder
from services.executor.backends.reference_kv_cache import KvCache
from services.executor.models.memory import kv_bytes_per_token
from services.executor.sampling import Draw
from services.executor.work import Work


class ReferenceBackend:
    """A `Backend` on the reference kernels."""

    def __init__(self, decoder: Decoder, num_blocks: int) -> None:
        self._decoder = decoder
        self._heads_per_kv_head = decoder.config.num_heads // decoder.config.num_kv_heads
        self.kv_cache = KvCache(decoder.config, num_blocks)
        self.num_blocks = num_blocks
        self.num_positions = decoder.num_positions
        self.bytes_per_token = kv_bytes_per_token(decoder.config, "float32")

    def settle(self) -> None:
        """Its cache was written when it was made."""

    @torch.inference_mode()
    def forward(self, work: Sequence[Work], wanted: Ints) -> Rows:
        batch = build_batch(work, self._heads_per_kv_head)
        hidden = self._decoder.forward(batch, self.kv_cache)
        return hidden[torch.from_numpy(wanted)].numpy()

    @torch.inference_mode()
    def logits(self, hidden: Rows) -> Rows:
        return self._decoder.logits(torch.from_numpy(hidden)).numpy()

    def best(self, logits: Rows, rows: Ints) -> Ints:
        return best_ids(logits, rows)

    def draw(self, logits: Rows, rows: Ints, draws: Sequence[Draw], *, are_masked: bool = False) -> Ints:
        return drawn_ids(logits, rows, draws, are_masked=are_masked)
