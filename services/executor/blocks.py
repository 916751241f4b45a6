"""KV blocks: how large one is, and how many a pool has."""

BLOCK_SIZE = 16
"""Tokens in a block."""

_BYTES_PER_MIB = 1 << 20


def blocks_that_fit(bytes_per_token: int, pool_tokens: int, memory_mb: int) -> int:
    """Blocks of a pool of `pool_tokens` (0: as many as `memory_mb` MiB hold); at least one."""
    tokens = pool_tokens or memory_mb * _BYTES_PER_MIB // bytes_per_token
    return max(1, tokens // BLOCK_SIZE)
