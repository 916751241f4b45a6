"""Compiled attention: the bits of a row depend on its own sequence and position, and on nothing else."""

import numpy as np
import pytest

from kernels.cpu.ops import BLOCK_SIZE, Shape
from tests.kernels.cpu.sequences import Tokens, attend_in_chunks, num_blocks, poisoned

SHAPES = [(9, 3, 64), (7, 1, 16), (16, 1, 32), (2, 2, 128), (5, 1, 80)]
LENGTH = 290  # a partition, and some


@pytest.fixture(params=[f"{kind}-{shape}" for kind in ("bf16", "fp32") for shape in range(len(SHAPES))])
def shape(request):
    """Formats and shapes in turn."""
    kind, _, index = request.param.partition("-")
    return Shape(*SHAPES[int(index)], int(kind == "bf16"))


def bits(x):
    return x.view(np.int32)


def attended(ops, tokens, shape, sizes, *, tile=0, seed=0):
    """In blocks that `seed` places among free ones full of NaN."""
    count = num_blocks(len(tokens))
    blocks = np.random.default_rng(seed).permutation(count + 3)[:count].astype(np.int32)
    return attend_in_chunks(ops, poisoned(shape, count + 3), tokens, blocks, sizes, tile=tile)


def test_bits_do_not_depend_on_chunks(ops, shape):
    """Decode, chunks of any size and the whole at once give a row the same bits."""
    tokens = Tokens.random(shape, LENGTH, seed=1)
    whole = bits(attended(ops, tokens, shape, [LENGTH]))
    for sizes in ([7], [15], [16], [17], [3, 255, 2, 1], [100, 1]):
        assert np.array_equal(bits(attended(ops, tokens, shape, sizes)), whole), sizes
    few = Tokens(*(rows[:35] for rows in (tokens.queries, tokens.keys, tokens.values)))
    assert np.array_equal(bits(attended(ops, few, shape, [1])), whole[:35])


def test_bits_do_not_depend_on_the_tile(ops, shape):
    """However many queries a task takes, more than it should included, a row keeps its bits."""
    tokens = Tokens.random(shape, LENGTH, seed=2)
    whole = bits(attended(ops, tokens, shape, [LENGTH]))
    for tile in (1, 2, 5, 16, 67, LENGTH):
        assert np.array_equal(bits(attended(ops, tokens, shape, [LENGTH], tile=tile)), whole), tile


def test_bits_do_not_depend_on_the_place_of_blocks(ops, shape):
    """Wherever blocks stand in the cache, a row keeps its bits."""
    tokens = Tokens.random(shape, LENGTH, seed=3)
    placed = [bits(attended(ops, tokens, shape, [64], seed=seed)) for seed in range(3)]
    assert np.array_equal(placed[0], placed[1])
    assert np.array_equal(placed[0], placed[2])


def test_later_tokens_change_nothing(ops, shape):
    """What a chunk's later tokens hold, huge as it may be, changes no bit of earlier rows."""
    tokens = Tokens.random(shape, LENGTH, seed=4)
    before = bits(attended(ops, tokens, shape, [LENGTH]))
    for cut in (3, 16, 100, 255, 256, 257):
        keys, values = tokens.keys.copy(), tokens.values.copy()
        keys[cut:] *= -1e18
        values[cut:] = -1e30
        changed = Tokens(tokens.queries, keys, values)
        assert np.array_equal(bits(attended(ops, changed, shape, [LENGTH]))[:cut], before[:cut]), cut


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["keys", "values"])
def test_a_token_that_is_not_finite_is_met_by_those_who_see_it_alone(ops, shape, where, poison):
    """Rows before it keep their bits, though some share its strip and block; it and all after it, in its head, are lost."""
    tokens = Tokens.random(shape, LENGTH, seed=7)
    before = bits(attended(ops, tokens, shape, [LENGTH]))
    group = shape.heads // shape.kv_heads
    for cut in (3, 16, 100, 255, 256):
        spoiled = Tokens(tokens.queries, tokens.keys.copy(), tokens.values.copy())
        getattr(spoiled, where)[cut, -1, 5] = poison
        for sizes in ([LENGTH], [17]):
            after = attended(ops, spoiled, shape, sizes)
            assert np.array_equal(bits(after)[:cut], before[:cut]), (cut, sizes)
            assert np.array_equal(bits(after)[:, :-group], before[:, :-group]), (cut, sizes)
            assert not np.isfinite(after[cut:, -group:]).any(), (cut, sizes)


def test_sign_of_a_zero_does_not_depend_on_chunks(ops, shape):
    """Values at and next to zero leave the same zeros in decode and in chunks, where weights of zero meet them as well."""
    tokens = Tokens.random(shape, 40, seed=5)
    tiny = 2.0 ** (-133 if shape.kv_is_bf16 else -149)
    tokens.values[:] = np.random.default_rng(5).choice([0.0, -0.0, tiny, -tiny], tokens.values.shape)
    whole = bits(attended(ops, tokens, shape, [40]))
    for sizes in ([1], [7]):
        assert np.array_equal(bits(attended(ops, tokens, shape, sizes)), whole), sizes


def test_reused_block_is_clean(ops, shape):
    """A block that another sequence has filled with NaN serves the next one right."""
    tokens = Tokens.random(shape, 2 * BLOCK_SIZE + 5, seed=6)
    clean = bits(attended(ops, tokens, shape, [len(tokens)]))
    blocks = np.arange(3, dtype=np.int32)
    kv = poisoned(shape, 3)
    poison = Tokens(*(np.full_like(rows, np.nan) for rows in (tokens.queries, tokens.keys, tokens.values)))
    attend_in_chunks(ops, kv, poison, blocks, [len(poison)])
    for sizes in ([1], [9]):
        assert np.array_equal(bits(attend_in_chunks(ops, kv, tokens, blocks, sizes)), clean), sizes
