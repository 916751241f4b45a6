"""A model in one call a step: an overflow stays in its sequence, and a want of memory is an exception like any other."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.cpu.model import SEQUENCE, KvCache, LinearRole, Model, ModelShape, VectorRole
from tests.kernels.cpu import short_of_memory

SHAPE = ModelShape(
    num_layers=2,
    hidden=52,
    inner=70,
    heads=10,
    kv_heads=2,
    head_dim=16,
    vocab=97,
    context=300,
    norm_eps=1e-5,
    kv_is_bf16=False,
)
OVERFLOWS = 96
"""The token whose embedding makes the values of the first layer overflow."""


def model_of(library, *, kv_is_bf16):
    """Random float32 weights; the first input is zero for all tokens but one, whose values it makes infinite."""
    shape = dataclasses.replace(SHAPE, kv_is_bf16=kv_is_bf16)
    model = Model(library, shape)
    rng = np.random.default_rng(0)
    q_width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim

    def weights(outputs, inputs):
        return (rng.standard_normal((outputs, inputs)) * 0.2).astype(np.float32)

    def give(role, values, layer=-1):
        linear = library.linear(values.shape[1])
        linear.add_segment("F32", len(values), values)
        model.set_linear(role, linear, layer)

    for layer in range(shape.num_layers):
        qkv = weights(q_width + 2 * kv_width, shape.hidden)
        if layer == 0:
            qkv[q_width + kv_width :, 0] = 3e38
        give(LinearRole.QKV, qkv, layer)
        give(LinearRole.O, weights(shape.hidden, q_width), layer)
        give(LinearRole.GATE_UP, weights(2 * shape.inner, shape.hidden), layer)
        give(LinearRole.DOWN, weights(shape.hidden, shape.inner), layer)
        for role in (VectorRole.ATTN_NORM, VectorRole.MLP_NORM):
            model.set_vector(role, np.ones(shape.hidden, np.float32), layer)
    embedding = weights(shape.vocab, shape.hidden)
    embedding[:, 0] = 0
    embedding[OVERFLOWS, 0] = 50
    give(LinearRole.EMBEDDING, embedding)
    give(LinearRole.LM_HEAD, embedding)
    model.set_vector(VectorRole.FINAL_NORM, np.ones(shape.hidden, np.float32))
    angles = np.outer(np.arange(shape.context), 0.1 ** np.arange(shape.head_dim // 2)).astype(np.float32)
    model.set_vector(VectorRole.COS, np.cos(angles))
    model.set_vector(VectorRole.SIN, np.sin(angles))
    return model


def step(model, cache, *parts, alone=False):
    """The logits of all rows of a step; a part is (tokens, position of the first, block table)."""
    tables = [np.array(blocks, np.int32) for _, _, blocks in parts]
    sequences = np.zeros(len(parts), SEQUENCE)
    row = 0
    for i, (tokens, start, _) in enumerate(parts):
        sequences[i]["first_row"], sequences[i]["count"], sequences[i]["start"] = row, len(tokens), start
        sequences[i]["blocks"] = tables[i].ctypes.data
        row += len(tokens)
    token_ids = np.concatenate([tokens for tokens, _, _ in parts]).astype(np.int32)
    positions = np.concatenate([start + np.arange(len(tokens)) for tokens, start, _ in parts]).astype(np.int32)
    hidden = model.forward(token_ids, positions, sequences, np.arange(row, dtype=np.int32), cache, alone=alone)
    return model.logits(hidden, alone=alone).copy()


def num_threads():
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize("kv_is_bf16", [False, True])
def test_an_overflow_stays_in_the_tokens_that_see_it(library, kv_is_bf16):
    """Its own row and those after it are lost; those before it, and who shares their blocks, keep every bit."""
    model = model_of(library, kv_is_bf16=kv_is_bf16)
    good, neighbour = list(range(16)), [40, 41, 42]
    clean = KvCache(model.shape, 8)
    right = step(model, clean, ([*good, 17, 18], 0, [0, 1]), (neighbour, 0, [2]))
    right_next = step(model, clean, ([30], 16, [0, 3]))
    assert np.isfinite(right).all()

    cache = KvCache(model.shape, 8)
    found = step(model, cache, ([*good, OVERFLOWS, 18], 0, [0, 1]), (neighbour, 0, [2]))
    assert np.array_equal(found[:16], right[:16])
    assert not np.isfinite(found[16:18]).all(axis=1).any()
    assert np.array_equal(found[18:], right[18:])
    assert np.array_equal(step(model, cache, ([30], 16, [0, 3])), right_next)  # a hit of the first block
    assert not np.isfinite(step(model, cache, ([19], 18, [0, 1]))).all()


@pytest.mark.parametrize("rows", [1, 40])
def test_a_step_alone_is_computed_by_its_caller(library, rows):
    """No worker is woken, yet every bit is the same; the next step has help again."""
    model, part = model_of(library, kv_is_bf16=True), (list(range(rows)), 0, [0, 1, 2])
    library.set_threads(1)  # those that have packed the weights end
    library.set_threads(3)
    before = num_threads()
    alone = step(model, KvCache(model.shape, 3), part, alone=True)
    assert num_threads() == before
    helped = step(model, KvCache(model.shape, 3), part)
    assert num_threads() == before + 2
    assert np.array_equal(alone, helped)


def test_best_of_some_rows(library):
    """In any order, one row several times; -1 where a logit is not finite."""
    model = model_of(library, kv_is_bf16=True)
    logits = np.random.default_rng(3).standard_normal((5, 1000)).astype(np.float32)
    logits[3, 999] = -np.inf
    best = logits.argmax(axis=1)
    found = model.best(logits, np.array([4, 0, 3, 0], np.int32))
    assert found.tolist() == [best[4], best[0], -1, best[0]]
    assert model.best(logits, np.empty(0, np.int32)).tolist() == []


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("what", short_of_memory.CALLS)
def test_a_want_of_memory_is_a_memory_error(what, threads):
    """Under a limit of the system a large call raises, and then a smaller one works; the process lives."""
    command = [sys.executable, "-m", short_of_memory.__name__, what, str(threads)]
    environment = os.environ | {
        "MALLOC_ARENA_MAX": "1"
    }  # each of glibc's arenas, one a thread, would take 64 MiB of it
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "MemoryError, then done"), done.stderr
