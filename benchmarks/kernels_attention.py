"""Attention of the compiled kernels on one thread, beside the roof that binds it: decode reads memory, prefill computes."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.kernels_cost import Cost, Unit, best_seconds
from benchmarks.report import Row
from benchmarks.roofs import Roofs
from kernels.cpu.ops import BLOCK_SIZE, Chunk, CpuOps, KvLayer, Shape

FORMATS = {"BF16": 1, "F32": 0}
"""Of keys and values, by GGUF's names, and as the kernels know them."""
HEADS, KV_HEADS, HEAD_DIM, LAYERS = 9, 3, 64, 30
"""Of SmolLM2-135M."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Case:
    """What a step computes: some tokens of each sequence after those in its cache, through all layers."""

    sequences: int
    count: int
    start: int
    most_times: float | None = None
    """How much longer than the binding roof's time it may take."""

    def __str__(self) -> str:
        if self.count == 1:
            return f"decode, {self.sequences} sequences at {self.start + 1} tokens"
        return f"prefill, {self.count} tokens after {self.start}"

    @property
    def operations(self) -> int:
        """Multiplications and additions of one layer that the result needs; masked keys are not counted."""
        keys = sum(range(self.start + 1, self.start + self.count + 1))
        return 4 * self.sequences * keys * HEADS * HEAD_DIM

    def seconds(self, ops: CpuOps, shape: Shape, clock_s: Clock) -> tuple[float, int]:
        """The best of a few rounds, and the bytes of the cache.

        As in a step, each layer's cache is memory of its own, and all results are written to one place.
        """
        random = np.random.default_rng(0)
        blocks = random.permutation(self.sequences * -(-(self.start + self.count) // BLOCK_SIZE)).astype(np.int32)
        tables = blocks.reshape(self.sequences, -1)
        chunks = [Chunk(row * self.count, self.count, self.start, table) for row, table in enumerate(tables)]
        queries = random.standard_normal((self.sequences * self.count, HEADS, HEAD_DIM), np.float32)
        layers = [_filled(shape, blocks.size) for _ in range(LAYERS)]
        attended = np.empty_like(queries)
        calls = [ops.attention_call(kv, chunks, queries, attended) for kv in layers]
        return best_seconds(calls, clock_s), sum(kv.nbytes for kv in layers)


CASES = (
    Case(64, 1, 127, 1 / 0.65),
    Case(16, 1, 511),
    Case(1, 256, 0, 1 / 0.65),
    Case(1, 256, 768, 1 / 0.65),
)


def attention_rows(
    level: str, roof: Roofs, cases: Iterable[Case] = CASES, clock_s: Clock = time.perf_counter
) -> Iterator[Row]:
    """Speed and share of one thread's roof, of each case and format of the cache."""
    ops = CpuOps(level)
    for kind, is_bf16 in FORMATS.items():
        shape = Shape(HEADS, KV_HEADS, HEAD_DIM, is_bf16)
        for case in cases:
            seconds, num_bytes = case.seconds(ops, shape, clock_s)
            cost = Cost(1e-9 * num_bytes, 1e-9 * LAYERS * case.operations, kind)
            unit: Unit = "GB/s" if case.count == 1 else "GOP/s"
            yield from cost.rows(f"attention, {kind} cache, {case}, 1 threads", seconds, roof, unit, case.most_times)


def _filled(shape: Shape, num_blocks: int) -> KvLayer:
    kv = KvLayer(shape, num_blocks)
    random = np.random.default_rng(num_blocks)
    for half in (kv.keys, kv.values):
        floats = random.standard_normal(half.shape, np.float32)
        half[:] = floats.view(np.uint32) >> 16 if shape.kv_is_bf16 else floats
    return kv
