"""Attention of the compiled kernels on one thread: decode, which reads memory, and prefill chunks, which compute."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels.cpu.ops import BLOCK_SIZE, Chunk, CpuOps, KvLayer, Shape

SEQUENCES, CONTEXT, LAYERS = 16, 512, 30
"""Of a decode step of the default model."""
CHUNK = 256
"""Queries of a prefill chunk."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The best of many runs, in CPU time."""

    seconds: float
    bytes_read: int
    """Of the cache, each key and value once."""
    operations: int
    """Multiplications and additions that the result needs; masked keys are not counted."""


def decode(ops: CpuOps, shape: Shape, repeats: int = 15) -> Timing:
    """One token of each of 16 sequences at 512 tokens, through 30 layers whose caches are 30 pieces of memory."""
    random = np.random.default_rng(0)
    blocks = random.permutation(SEQUENCES * CONTEXT // BLOCK_SIZE).astype(np.int32).reshape(SEQUENCES, -1)
    chunks = [Chunk(row, 1, CONTEXT - 1, table) for row, table in enumerate(blocks)]
    layers = [_filled(shape, blocks.size) for _ in range(LAYERS)]
    queries = random.normal(size=(SEQUENCES, shape.heads, shape.head_dim)).astype(np.float32)
    out = np.empty_like(queries)
    calls = [ops.attention_call(kv, chunks, queries, out) for kv in layers]
    return Timing(
        _best_seconds(lambda: [call() for call in calls], repeats),
        sum(kv.nbytes for kv in layers),
        LAYERS * _operations(shape, chunks),
    )


def prefill(ops: CpuOps, shape: Shape, start: int, repeats: int = 30) -> Timing:
    """A chunk of 256 queries after `start` tokens, in one layer."""
    random = np.random.default_rng(0)
    blocks = random.permutation((start + CHUNK) // BLOCK_SIZE).astype(np.int32)
    chunks = [Chunk(0, CHUNK, start, blocks)]
    kv = _filled(shape, blocks.size)
    queries = random.normal(size=(CHUNK, shape.heads, shape.head_dim)).astype(np.float32)
    call = ops.attention_call(kv, chunks, queries, np.empty_like(queries))
    return Timing(_best_seconds(call, repeats), kv.nbytes, _operations(shape, chunks))


def _filled(shape: Shape, num_blocks: int) -> KvLayer:
    kv = KvLayer(shape, num_blocks)
    random = np.random.default_rng(num_blocks)
    for half in (kv.keys, kv.values):
        floats = random.normal(size=half.shape).astype(np.float32)
        half[:] = floats.view(np.uint32) >> 16 if shape.kv_is_bf16 else floats
    return kv


def _operations(shape: Shape, chunks: list[Chunk]) -> int:
    keys = sum(sum(range(chunk.start + 1, chunk.start + chunk.count + 1)) for chunk in chunks)
    return 4 * keys * shape.heads * shape.head_dim


def _best_seconds(call: Callable[[], object], repeats: int) -> float:
    took_ns = []
    for _ in range(repeats):
        began_ns = time.process_time_ns()
        call()
        took_ns.append(time.process_time_ns() - began_ns)
    return min(took_ns) / 1e9
