"""A process that asks the kernels for more memory than it may have, then for less: `python -m ... CALL THREADS`.

What the large calls are given is memory of zeros that nobody touches, so that little is used in truth.
"""

import dataclasses
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kernels.cpu.library import Linear, load
from kernels.cpu.model import SEQUENCE, KvCache, LinearRole, Model, ModelShape, VectorRole
from kernels.cpu.sampling import DRAW, draw

ROOM = 64 << 20
"""What there is; each large call wants at least 128 MiB."""
SHAPE = ModelShape(
    num_layers=1,
    hidden=32,
    inner=32,
    heads=256,
    kv_heads=1,
    head_dim=16,
    vocab=16,
    context=1 << 13,
    norm_eps=1e-5,
    kv_is_bf16=True,
)
"""Of so many heads that the queries of all positions are large."""

Call = Callable[[], object]


def model_of_zeros() -> Model:
    model = Model(load(), SHAPE)
    width = SHAPE.heads * SHAPE.head_dim
    roles = {
        LinearRole.QKV: (width + 2 * SHAPE.head_dim, SHAPE.hidden),
        LinearRole.O: (SHAPE.hidden, width),
        LinearRole.GATE_UP: (2 * SHAPE.inner, SHAPE.hidden),
        LinearRole.DOWN: (SHAPE.hidden, SHAPE.inner),
        LinearRole.EMBEDDING: (SHAPE.vocab, SHAPE.hidden),
        LinearRole.LM_HEAD: (SHAPE.vocab, SHAPE.hidden),
    }
    for role, extent in roles.items():
        model.set_linear(role, linear_of_zeros(*extent), 0)
    for role in (VectorRole.ATTN_NORM, VectorRole.MLP_NORM, VectorRole.FINAL_NORM):
        model.set_vector(role, np.ones(SHAPE.hidden, np.float32), 0)
    for role in (VectorRole.COS, VectorRole.SIN):
        model.set_vector(role, np.zeros((SHAPE.context, 8), np.float32))
    return model


def linear_of_zeros(outputs: int, inputs: int) -> Linear:
    linear = load().linear(inputs)
    linear.add_segment("Q8_0", outputs, np.zeros(outputs * inputs // 32 * 34, np.uint8))
    return linear


def create() -> tuple[Call, Call]:
    library, large = load(), dataclasses.replace(SHAPE, num_layers=1 << 20)
    return lambda: Model(library, large), lambda: Model(library, SHAPE)


def set_vector() -> tuple[Call, Call]:
    small, model = Model(load(), SHAPE), Model(load(), dataclasses.replace(SHAPE, context=1 << 22))
    table = np.zeros((1 << 22, 8), np.float32)
    few = table[: SHAPE.context]
    return lambda: model.set_vector(VectorRole.COS, table), lambda: small.set_vector(VectorRole.COS, few)


def forward() -> tuple[Call, Call]:
    model, most = model_of_zeros(), SHAPE.context
    blocks = np.arange(most // 16, dtype=np.int32)
    cache = KvCache(SHAPE, len(blocks))

    def step(rows: int) -> None:
        sequences = np.array([(0, rows, 0, 0, blocks.ctypes.data)], SEQUENCE)
        positions, wanted = np.arange(rows, dtype=np.int32), np.array([rows - 1], np.int32)
        hidden = model.forward(np.zeros(rows, np.int32), positions, sequences, wanted, cache)
        assert not hidden.any()

    return lambda: step(most), lambda: step(3)


def logits() -> tuple[Call, Call]:
    model = Model(load(), dataclasses.replace(SHAPE, hidden=1 << 18))
    model.set_linear(LinearRole.LM_HEAD, linear_of_zeros(SHAPE.vocab, 1 << 18))
    hidden = np.zeros((1 << 9, 1 << 18), np.float32)
    return lambda: model.logits(hidden), lambda: model.logits(hidden[:1])


def drawing() -> tuple[Call, Call]:
    rows = np.zeros((2, 1 << 23), np.float32)
    draws = np.array([(0.0, 1.0, 0.0, 0.5, 0)] * 8, DRAW)
    of_each = np.zeros(8, np.int32)
    return lambda: draw(rows, of_each, draws), lambda: draw(np.ascontiguousarray(rows[:, :9]), of_each, draws)


def conversion() -> tuple[Call, Call]:
    linear, other, raw = load().linear(1 << 22), load().linear(16), np.zeros(1 << 22, np.float32)

    def small() -> None:
        other.add_segment("F32", 1, raw[:16], "bfloat16")

    return lambda: linear.add_segment("F32", 1, raw, "bfloat16"), small


CALLS = {each.__name__: each for each in (create, set_vector, forward, logits, drawing, conversion)}


def main(name: str, threads: str) -> None:
    load().set_threads(int(threads))
    large, small = CALLS[name]()
    drawing()[1]()  # the threads start
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ROOM, most))
    try:
        large()
    except MemoryError:
        print("MemoryError", end=", then ")
    small()
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
