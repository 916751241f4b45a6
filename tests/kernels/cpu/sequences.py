"""Sequences at random, in the cache of the compiled kernels and in that of the reference."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from kernels import reference
from kernels.cpu.ops import BLOCK_SIZE, Chunk, CpuOps, Floats, Ints, KvLayer, Shape

BLOCKS_PER_PARTITION = reference.PARTITION // BLOCK_SIZE


@dataclass(frozen=True)
class Tokens:
    """What one sequence's tokens ask, and hold."""

    queries: Floats  # [length, heads, head_dim]
    keys: Floats  # [length, kv_heads, head_dim]
    values: Floats

    @classmethod
    def random(cls, shape: Shape, length: int, seed: int) -> "Tokens":
        random = np.random.default_rng(seed)

        def normal(heads: int) -> Floats:
            return random.normal(size=(length, heads, shape.head_dim)).astype(np.float32)

        return cls(2 * normal(shape.heads), normal(shape.kv_heads), normal(shape.kv_heads))

    def __len__(self) -> int:
        return len(self.queries)


def num_blocks(length: int) -> int:
    return -(-length // BLOCK_SIZE)


def poisoned(shape: Shape, blocks: int) -> KvLayer:
    """A cache in which every free block holds NaN."""
    kv = KvLayer(shape, blocks)
    for half in (kv.keys, kv.values):
        half[:] = 0x7FC0 if shape.kv_is_bf16 else np.nan
    return kv


def attend_in_chunks(
    ops: CpuOps, kv: KvLayer, tokens: Tokens, blocks: Ints, sizes: Sequence[int], *, tile: int = 0
) -> Floats:
    """Attention of all tokens, computed chunk by chunk of these sizes, the last as often as needed."""
    out, start = [], 0
    remaining = list(sizes)
    while start < len(tokens):
        count = min(remaining.pop(0) if len(remaining) > 1 else remaining[0], len(tokens) - start)
        here = slice(start, start + count)
        positions = range(start, start + count)
        kv_rows = [int(blocks[at // BLOCK_SIZE]) * BLOCK_SIZE + at % BLOCK_SIZE for at in positions]
        ops.write_kv(kv, kv_rows, tokens.keys[here], tokens.values[here])
        chunk = Chunk(0, count, start, blocks)
        out.append(ops.attention(kv, [chunk], np.ascontiguousarray(tokens.queries[here]), tile))
        start += count
    return np.concatenate(out)


def reference_attention(tokens: Tokens, start: int = 0) -> Floats:
    """By kernels/reference.py, of the tokens from `start` on."""
    length, heads, _ = tokens.queries.shape
    blocks = -(-num_blocks(length) // BLOCKS_PER_PARTITION) * BLOCKS_PER_PARTITION
    caches = []
    for rows in (tokens.keys, tokens.values):
        cache = torch.zeros(rows.shape[1], blocks, BLOCK_SIZE, rows.shape[2])
        reference.write_kv(cache, torch.arange(length), torch.from_numpy(rows))
        caches.append(cache)
    width = reference.tile_queries(heads // tokens.keys.shape[1])
    places = np.arange(start, start + -(-(length - start) // width) * width).clip(max=length - 1)
    rows = torch.from_numpy(places.reshape(-1, width))
    run = reference.TileRun(
        query_rows=rows,
        positions=rows,
        blocks=torch.arange(blocks).view(1, -1),
        lengths=(length,),
        output_rows=torch.arange(start, length),
        output_index=torch.arange(length - start),
    )
    return reference.attention(torch.from_numpy(tokens.queries), *caches, [run]).numpy()[start:]


def bfloat16(x: Floats) -> Floats:
    """Rounded to bfloat16."""
    return torch.from_numpy(x).bfloat16().float().numpy()
