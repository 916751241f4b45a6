"""The KV cache: one pool of blocks, in which every layer keeps the keys and values of every sequence."""

import torch

from services.executor.blocks import BLOCK_SIZE
from services.executor.models.config import DecoderConfig


class KvCache:
    """Keys and values, each [layers, kv_heads, num_blocks, block size, head_dim]. Free blocks hold anything."""

    def __init__(self, config: DecoderConfig, num_blocks: int) -> None:
        shape = (config.num_layers, config.num_kv_heads, num_blocks, BLOCK_SIZE, config.head_dim)
        self.num_blocks = num_blocks
        # Not zeroed: the system then gives memory as blocks are first used.
        self.keys = torch.empty(shape, dtype=torch.float32)
        self.values = torch.empty(shape, dtype=torch.float32)

    def layer(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one layer, [kv_heads, num_blocks, block size, head_dim] each."""
        return self.keys[index], self.values[index]
