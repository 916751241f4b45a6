"""The reference kernels: what they compute, and that no bit of a row depends on its neighbours."""

import math

import numpy as np
import pytest
import torch

from kernels import reference
from kernels.reference import TILE_ROWS
from services.executor.backends.reference_batch import build_batch
from services.executor.slots import Slot
from services.executor.work import Work
from services.wire.execution import GREEDY, AdmittedSlot
from services.wire.message import int32_column

# (in, out): the default model's, those of larger ones, and odd ones.
SHAPES = [(576, 960), (576, 3072), (1536, 576), (576, 4099), (896, 1152), (4096, 1024), (4864, 896), (100, 36), (48, 7)]
KV_HEADS, HEADS, HEAD_DIM, BLOCK_SIZE, NUM_BLOCKS = 2, 6, 16, 16, 64


@pytest.fixture(params=[1, 2])
def threads(request):
    """Runs a test with one thread and with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def bits(tensor):
    return tensor.contiguous().view(torch.int32)


def same_bits(left, right):
    return torch.equal(bits(left), bits(right))


@pytest.mark.parametrize(("width", "out"), SHAPES)
def test_linear_row_depends_on_nothing_but_itself(width, out, threads):
    """A row of a product has the same bits alone, at any place of a tile, among zeros or others, in any batch."""
    generator = torch.Generator().manual_seed(width)
    weight = torch.randn(out, width, generator=generator)
    row = torch.randn(width, generator=generator)
    alone = torch.zeros(TILE_ROWS, width)
    alone[0] = row
    torch.set_num_threads(1)
    expected = reference.linear(alone, weight)[0]
    torch.set_num_threads(threads)
    for rows in (16, 32, 48, 256):
        for place in range(rows) if rows == 16 else (0, 5, 17, rows - 1):
            batch = torch.randn(rows, width, generator=generator)
            batch[place] = row
            assert same_bits(reference.linear(batch, weight)[place], expected), (rows, place)


def test_linear_is_a_matrix_product_with_bias():
    """Linear equals x @ weight.T + bias."""
    x, weight, bias = torch.randn(32, 20), torch.randn(12, 20), torch.randn(12)
    exact = x.double() @ weight.double().t() + bias.double()
    torch.testing.assert_close(reference.linear(x, weight, bias), exact.float())


def test_exp_has_the_same_bits_at_every_place_of_an_array(threads):
    """Vector and tail code agree on exp, whatever the offset, length, stride or split between threads."""
    values = torch.randn(70_000, generator=torch.Generator().manual_seed(3)) * 8
    expected = torch.tensor([torch.exp(value) for value in values[:400]])
    everywhere = torch.exp(values)
    assert same_bits(everywhere[:400], expected)
    for offset in range(40):
        for length in (1, 7, 15, 16, 17, 31, 33, 100, 2047, 2049, 40_001):
            assert same_bits(torch.exp(values[offset : offset + length]), everywhere[offset : offset + length])
    assert same_bits(torch.exp(values[::3]), everywhere[::3])


@pytest.mark.parametrize("width", [8, 64, 100, 128, 576, 896, 4096])
def test_norm_of_a_row_depends_on_nothing_but_itself(width, threads):
    """A row's norm has the same bits alone and in any batch."""
    x = torch.randn(2048, width, generator=torch.Generator().manual_seed(width))
    weight = torch.randn(width)
    alone = torch.stack([reference.rms_norm(row, weight, 1e-5) for row in x[:64]])
    for rows in (64, 80, 512, 2048):
        assert same_bits(reference.rms_norm(x[:rows], weight, 1e-5)[:64], alone)


def test_norm_divides_by_the_root_mean_square():
    """rms_norm equals x / sqrt(mean(x^2) + eps) * weight."""
    x, weight = torch.randn(5, 3, 8), torch.randn(8)
    exact = x.double() / (x.double().pow(2).mean(-1, keepdim=True) + 1e-3).sqrt() * weight
    torch.testing.assert_close(reference.rms_norm(x, weight, 1e-3), exact.float())


def test_gated_is_silu_times_up_and_saturates():
    """Gated equals silu(gate) * up, also where exp overflows."""
    gate_up = torch.randn(16, 200) * 3
    gate_up[0, 0], gate_up[1, 0] = -200.0, 200.0
    gate, up = gate_up.double().chunk(2, dim=-1)
    torch.testing.assert_close(reference.gated(gate_up), (torch.nn.functional.silu(gate) * up).float())


def test_gated_row_depends_on_nothing_but_itself(threads):
    """A row of the gate has the same bits alone and in any batch."""
    gate_up = torch.randn(512, 2 * 99, generator=torch.Generator().manual_seed(1))
    alone = torch.cat([reference.gated(row[None]) for row in gate_up[:64]])
    assert same_bits(reference.gated(gate_up)[:64], alone)


def test_rotate_turns_each_pair_of_halves_by_its_angle():
    """Dimension i and i + half are the real and imaginary part of a number that is turned."""
    x = torch.randn(4, 3, 10)
    angle = torch.randn(4, 1, 5)
    turned = torch.complex(x[..., :5], x[..., 5:]) * torch.polar(torch.ones(4, 1, 5), angle)
    expected = torch.cat((turned.real, turned.imag), dim=-1)
    torch.testing.assert_close(reference.rotate(x, angle.cos(), angle.sin()), expected)


def sequence(length, blocks, slot=0):
    """A slot of `length` known tokens in `blocks`."""
    tokens = int32_column(range(length))
    admitted = AdmittedSlot(
        slot=slot, token_ids=tokens, prompt_length=length, token_limit=length, blocks=int32_column(), sampling=GREEDY
    )
    made = Slot(admitted, ())
    for block in blocks:
        made.append_block(block)
    return made


class Attention:
    """Random queries, keys and values by position, and the paged cache that they are written to."""

    def __init__(self, length, blocks, seed):
        generator = torch.Generator().manual_seed(seed)
        self.q, self.k, self.v = (torch.randn(length, heads, HEAD_DIM, generator=generator) for heads in (HEADS, 2, 2))
        self.slot = sequence(length, blocks)

    def exact(self):
        """The textbook's answer in float64."""
        k, v = (x.double().repeat_interleave(HEADS // KV_HEADS, dim=1) for x in (self.k, self.v))
        scores = torch.einsum("qhd,khd->hqk", self.q.double(), k) / math.sqrt(HEAD_DIM)
        hidden = torch.ones(len(self.q), len(self.q), dtype=torch.bool).triu(1)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, v).float()


def attend(pieces, cache):
    """Attention of [(sequence, start, count)] in one step; returns the rows of each piece."""
    batch = build_batch([Work(a.slot, start, count) for a, start, count in pieces], HEADS // KV_HEADS)
    rows = len(batch.token_ids)

    def ragged(values):
        joined = torch.cat([values(a)[start : start + count] for a, start, count in pieces])
        return torch.nn.functional.pad(joined, (0, 0, 0, 0, 0, rows - len(joined)))

    keys, values = cache
    reference.write_kv(keys, batch.kv_rows, ragged(lambda a: a.k))
    reference.write_kv(values, batch.kv_rows, ragged(lambda a: a.v))
    out = reference.attention(ragged(lambda a: a.q), keys, values, batch.runs)
    return out[: sum(count for _, _, count in pieces)].split([count for _, _, count in pieces])


def nan_cache():
    shape = (KV_HEADS, NUM_BLOCKS, BLOCK_SIZE, HEAD_DIM)
    return torch.full(shape, torch.nan), torch.full(shape, torch.nan)


@pytest.mark.parametrize("length", [1, 5, 6, 15, 16, 17, 255, 256, 257, 530])
def test_attention_is_causal_softmax_over_a_block_table(length):
    """Whole prompts give the textbook's answer, in a cache whose free blocks are full of NaN."""
    blocks = np.random.default_rng(length).permutation(NUM_BLOCKS)[: -(-length // BLOCK_SIZE)]
    a = Attention(length, blocks.tolist(), length)
    (out,) = attend([(a, 0, length)], nan_cache())
    torch.testing.assert_close(out, a.exact(), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("group", [1, 2, 4, 5, 6, 7, 8, 11, 16, 17])
def test_attention_serves_any_number_of_heads_per_kv_head(group, monkeypatch):
    """Also where the rows of a tile are no multiple of its queries, each head sees its own query's past, all of it."""
    monkeypatch.setattr(f"{__name__}.HEADS", group * KV_HEADS)
    a = Attention(40, range(3), group)
    (out,) = attend([(a, 0, 40)], nan_cache())
    torch.testing.assert_close(out, a.exact(), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("chunk", [1, 3, 5, 6, 7, 15, 16, 17, 200])
def test_attention_has_the_same_bits_however_a_prompt_is_chunked(chunk, threads):
    """Chunked and whole prefill agree bit for bit, over more than one key partition."""
    length = 300
    a = Attention(length, range(19), 1)
    (whole,) = attend([(a, 0, length)], nan_cache())
    cache = nan_cache()
    starts = range(0, length, chunk)
    parts = [attend([(a, start, min(chunk, length - start))], cache)[0] for start in starts]
    assert same_bits(torch.cat(parts), whole)


def test_attention_has_the_same_bits_in_any_company(threads):
    """Neighbours of any length, decoding or prefilling, leave a sequence's bits alone."""
    a = Attention(270, range(17), 1)
    b = Attention(40, range(20, 23), 2)
    c = Attention(520, range(23, 56), 3)
    (alone,) = attend([(a, 0, 270)], nan_cache())
    cache = nan_cache()
    attend([(b, 0, 39), (a, 0, 260), (c, 0, 519)], cache)
    mixed = attend([(c, 519, 1), (a, 260, 9), (b, 39, 1)], cache)[1]
    last = attend([(a, 269, 1)], cache)[0]
    assert same_bits(mixed, alone[260:269])
    assert same_bits(last, alone[269:])


def test_two_sequences_may_share_a_block_that_one_fills_in_the_same_step():
    """All keys and values of a step are written before any is read."""
    a = Attention(32, [3, 4], 1)
    b = Attention(48, [3, 4, 5], 2)
    b.k[:32], b.v[:32] = a.k, a.v
    _, shared = attend([(a, 0, 32), (b, 32, 16)], nan_cache())
    torch.testing.assert_close(shared, b.exact()[32:], atol=2e-6, rtol=1e-5)
