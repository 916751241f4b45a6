"""Storing keys and values: where each element goes, and what the first token of a block clears."""

import numpy as np
import pytest

from kernels.cpu.ops import BLOCK_SIZE, Shape
from tests.kernels.cpu.sequences import bfloat16, poisoned

SHAPE = (4, 2, 48)


def as_floats(elements):
    """Of either format."""
    if elements.dtype == np.float32:
        return elements
    return (elements.astype(np.uint32) << 16).view(np.float32)


def by_token(kv):
    """Keys and values as [blocks, kv_heads, tokens, head_dim]: the layouts of ops.h, undone."""
    dim = kv.shape.head_dim
    blocks, heads, _ = kv.keys.shape
    keys, values = as_floats(kv.keys), as_floats(kv.values)
    if kv.shape.kv_is_bf16:
        keys = keys.reshape(blocks, heads, dim // 2, BLOCK_SIZE, 2).transpose(0, 1, 3, 2, 4)
        values = values.reshape(blocks, heads, BLOCK_SIZE // 2, dim, 2).transpose(0, 1, 2, 4, 3)
    else:
        keys = keys.reshape(blocks, heads, dim, BLOCK_SIZE).transpose(0, 1, 3, 2)
    shape = (blocks, heads, BLOCK_SIZE, dim)
    return keys.reshape(shape), values.reshape(shape)


@pytest.mark.parametrize("is_bf16", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 15, 16])
def test_each_token_stands_at_its_place_and_the_rest_is_clear(ops, is_bf16, count):
    """Tokens written in order are found again, exactly (bf16: rounded); values after them are +0, other blocks untouched."""
    shape = Shape(*SHAPE, is_bf16)
    random = np.random.default_rng(count)
    keys, values = random.normal(size=(2, count, 2, 48)).astype(np.float32)
    kv = poisoned(shape, 3)
    ops.write_kv(kv, [BLOCK_SIZE + offset for offset in range(count)], keys, values)
    stored_keys, stored_values = by_token(kv)
    rounded = bfloat16 if is_bf16 else np.asarray
    assert np.array_equal(stored_keys[1, :, :count].swapaxes(0, 1), rounded(keys))
    assert np.array_equal(stored_values[1, :, :count].swapaxes(0, 1), rounded(values))
    assert not stored_values[1, :, count:].view(np.int32).any()
    for stored in (stored_keys, stored_values):
        assert np.isnan(stored[[0, 2]]).all()


@pytest.mark.parametrize("is_bf16", [0, 1])
def test_a_later_token_leaves_earlier_ones_alone(ops, is_bf16):
    """Only the first token of a block clears: any other changes its own elements alone."""
    shape = Shape(*SHAPE, is_bf16)
    random = np.random.default_rng(7)
    keys, values = random.normal(size=(2, BLOCK_SIZE, 2, 48)).astype(np.float32)
    kv = poisoned(shape, 1)
    ops.write_kv(kv, range(BLOCK_SIZE), keys, values)
    before = [stored.copy() for stored in by_token(kv)]
    for offset in range(1, BLOCK_SIZE):
        ops.write_kv(kv, [offset], keys[offset : offset + 1] + 1, values[offset : offset + 1] - 1)
        for stored, old in zip(by_token(kv), before, strict=True):
            changed = (stored != old).any(axis=(0, 1, 3))
            assert np.flatnonzero(changed).tolist() == [offset]
        ops.write_kv(kv, [offset], keys[offset : offset + 1], values[offset : offset + 1])


def test_bf16_rounds_to_even(ops):
    """Halves go to the even neighbour, and the sign of a zero stays."""
    shape = Shape(1, 1, 16, 1)
    bits = np.zeros(16, np.uint32)
    given = [0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7F7FFF, 0x80000000]
    kept = [0x3F80, 0x3F82, 0x3F81, 0x3F80, 0x7F7F, 0x8000]
    bits[: len(given)] = given
    row = bits.view(np.float32).reshape(1, 1, 16)
    kv = poisoned(shape, 1)
    ops.write_kv(kv, [0], row, row)
    for stored in by_token(kv):
        assert (stored[0, 0, 0].view(np.uint32)[: len(kept)] >> 16).tolist() == kept


@pytest.mark.parametrize("is_bf16", [0, 1])
@pytest.mark.parametrize("in_keys", [False, True])
@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x7F7F8000])
def test_a_token_that_is_not_finite_has_a_key_of_nan_and_a_value_of_zero(ops, is_bf16, in_keys, bits):
    """So whoever sees the token is told, and nobody else meets it; in bf16 what would round to infinity is the same."""
    shape = Shape(*SHAPE, is_bf16)
    keys, values = np.random.default_rng(1).normal(size=(2, 3, 2, 48)).astype(np.float32)
    (keys if in_keys else values)[1, 1, 47] = np.uint32(bits).view(np.float32)
    kv = poisoned(shape, 1)
    ops.write_kv(kv, range(3), keys, values)
    stored_keys, stored_values = (stored[0] for stored in by_token(kv))
    if bits == 0x7F7F8000 and not is_bf16:
        assert np.isfinite(stored_keys[:, :3]).all()
        return
    assert np.isnan(stored_keys[1, 1]).all()
    assert not stored_values[1, 1].any()
    for head, token in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):  # the others, of this token's other head too
        assert np.isfinite(stored_keys[head, token]).all()
        assert stored_values[head, token].all()
