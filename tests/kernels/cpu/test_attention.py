"""Compiled attention: what it computes, and for which models."""

import numpy as np
import pytest

from kernels.cpu.ops import Chunk, Shape
from tests.kernels.cpu.sequences import Tokens, attend_in_chunks, bfloat16, num_blocks, poisoned, reference_attention

HEADS = [
    (9, 3, 64),
    (4, 4, 16),
    (4, 1, 32),
    (14, 2, 64),
    (2, 2, 128),
    (5, 1, 80),
    (17, 1, 48),
    (40, 2, 16),
    (3, 1, 256),
]
# Of fp32, relative to values of about 1; of bf16, what rounding queries and weights to 8 bits leaves.
FP32_ERROR, BF16_ERROR = 1e-5, 1.5e-2


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), HEADS)
@pytest.mark.parametrize("length", [1, 16, 37, 270])
def test_fp32_attention_is_the_references(ops, heads, kv_heads, head_dim, length):
    """On an fp32 cache, attention is what kernels/reference.py defines."""
    shape = Shape(heads, kv_heads, head_dim, 0)
    tokens = Tokens.random(shape, length, seed=length)
    blocks = np.arange(num_blocks(length), dtype=np.int32)
    attended = attend_in_chunks(ops, poisoned(shape, len(blocks)), tokens, blocks, [length])
    np.testing.assert_allclose(attended, reference_attention(tokens), atol=FP32_ERROR, rtol=0)


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), HEADS)
@pytest.mark.parametrize("length", [1, 16, 37, 270])
def test_bf16_attention_is_the_references_on_rounded_values(ops, heads, kv_heads, head_dim, length):
    """On a bf16 cache it is the reference's on rounded scaled queries, keys and values, but for rounded weights."""
    shape = Shape(heads, kv_heads, head_dim, 1)
    tokens = Tokens.random(shape, length, seed=length)
    blocks = np.arange(num_blocks(length), dtype=np.int32)
    attended = attend_in_chunks(ops, poisoned(shape, len(blocks)), tokens, blocks, [length])
    scale = np.float32(head_dim**-0.5)
    rounded = Tokens(bfloat16(tokens.queries * scale) / scale, bfloat16(tokens.keys), bfloat16(tokens.values))
    expected = reference_attention(rounded)
    np.testing.assert_allclose(attended, expected, atol=BF16_ERROR, rtol=0)
    assert np.abs(attended - expected).mean() < BF16_ERROR / 10


@pytest.mark.parametrize("is_bf16", [0, 1])
def test_ragged_batch_is_each_sequence_alone(ops, is_bf16):
    """Decodes and chunks of several sequences in one batch give each what it gets alone; other rows stay untouched."""
    shape = Shape(6, 2, 32, is_bf16)
    random = np.random.default_rng(5)
    sequences = [Tokens.random(shape, length, seed=length) for length in (1, 300, 45, 513, 16)]
    counts = [1, 7, 45, 1, 16]
    tables = np.split(random.permutation(80).astype(np.int32), np.cumsum([num_blocks(len(s)) for s in sequences]))
    kv = poisoned(shape, 80)
    alone = [
        attend_in_chunks(ops, kv, tokens, table, [len(tokens)])[-count:]
        for tokens, table, count in zip(sequences, tables, counts, strict=False)
    ]
    chunks, queries, row = [], [np.zeros((2, 6, 32), np.float32)], 2
    for tokens, table, count in zip(sequences, tables, counts, strict=False):
        chunks.append(Chunk(row, count, len(tokens) - count, table))
        queries.append(tokens.queries[-count:])
        row += count
    attended = ops.attention(kv, chunks[::-1], np.concatenate(queries))
    assert np.array_equal(attended[2:], np.concatenate(alone))
    assert not attended[:2].any()


@pytest.mark.parametrize("is_bf16", [0, 1])
def test_one_key_gives_its_value(ops, is_bf16):
    """The first token of a sequence gets its own value back, exactly (in bf16: rounded)."""
    shape = Shape(2, 1, 16, is_bf16)
    tokens = Tokens.random(shape, 1, seed=0)
    attended = attend_in_chunks(ops, poisoned(shape, 1), tokens, np.zeros(1, np.int32), [1])
    value = bfloat16(tokens.values) if is_bf16 else tokens.values
    assert np.array_equal(attended, np.repeat(value, 2, axis=1))


@pytest.mark.parametrize("is_bf16", [0, 1])
def test_scores_far_apart_leave_the_best_alone(ops, is_bf16):
    """Where one key beats all others by far, in whichever partition, its value comes out exactly."""
    shape = Shape(1, 1, 16, is_bf16)
    for place in (0, 40, 255, 256, 299):
        tokens = Tokens.random(shape, 300, seed=place)
        tokens.keys[:] = 0.0
        tokens.queries[:] = 64.0
        tokens.keys[place] = 64.0
        blocks = np.arange(num_blocks(300), dtype=np.int32)
        attended = attend_in_chunks(ops, poisoned(shape, len(blocks)), tokens, blocks, [300])
        value = bfloat16(tokens.values[place]) if is_bf16 else tokens.values[place]
        assert np.array_equal(attended[-1], value), place


@pytest.mark.parametrize(
    ("shape", "is_supported"),
    [
        (Shape(9, 3, 64, 1), True),
        (Shape(1, 1, 256, 0), True),
        (Shape(71, 1, 16, 0), True),
        (Shape(9, 3, 72, 1), False),
        (Shape(9, 3, 272, 1), False),
        (Shape(9, 2, 64, 1), False),
        (Shape(9, 3, 0, 1), False),
        (Shape(0, 3, 64, 1), False),
        (Shape(9, 0, 64, 1), False),
    ],
)
def test_shapes_beyond_the_kernels_are_refused(shape, is_supported):
    """head_dim goes in steps of 16 up to 256, and heads are shared evenly."""
    assert shape.is_supported is is_supported
