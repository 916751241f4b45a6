"""The KV cache: one pool of blocks, in which every layer keeps the keys and values of every sequence."""

import torch

from services.executor.models.config import DecoderConfig

BLOCK_SIZE = 16
"""Tokens in a block."""

_BYTES_PER_MIB = 1 << 20


def bytes_per_token(config: DecoderConfig) -> int:
    """Bytes of keys and values of one token over all layers, in float32."""
    return 2 * config.num_layers * config.kv_size * torch.float32.itemsize


def blocks_that_fit(config: DecoderConfig, pool_tokens: int, memory_mb: int) -> int:
    """Blocks of a pool of `pool_tokens` (0: as many as `memory_mb` MiB hold); at least one."""
    tokens = pool_tokens or memory_mb * _BYTES_PER_MIB // bytes_per_token(config)
    return max(1, tokens // BLOCK_SIZE)


class KvCache:
    """Keys and values, each [layers, kv_heads, num_blocks, block size, head_dim]. Free blocks hold anything."""

    def __init__(self, config: DecoderConfig, num_blocks: int) -> None:
        shape = (config.num_layers, config.num_kv_heads, num_blocks, BLOCK_SIZE, config.head_dim)
        self.num_blocks = num_blocks
        self.bytes_per_token = bytes_per_token(config)
        # Not zeroed: the system then gives memory as blocks are first used.
        self.keys = torch.empty(shape, dtype=torch.float32)
        self.values = torch.empty(shape, dtype=torch.float32)

    def layer(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one layer, [kv_heads, num_blocks, block size, head_dim] each."""
        return self.keys[index], self.values[index]
