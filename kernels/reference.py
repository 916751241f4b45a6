"""The definition of every kernel, in plain torch on a CPU: right first, and batch invariant bit for bit.

A row's result depends on that row (for attention: on its own sequence and position) and on nothing else. Three facts
carry this, and `tests/kernels` checks each on the machine at hand:

- A product of fixed shape [16, K] x [K, N] gives a row the same bits whatever the other rows hold, wherever in the tile
  it stands, and for any thread count. Stock products do not: their kernels change with the number of rows.
- Sums run along the last axis of contiguous rows, one row at a time, in an order that the row's length fixes.
- Everything else is elementwise, of operations that IEEE 754 rounds exactly, and `exp`, whose bits do not depend on where
  in an array an element stands. (torch's sigmoid and silu are not like that.)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

TILE_ROWS = 16
"""Rows of every matrix product; a batch is padded to a multiple."""
PARTITION = 256
"""Keys that attention reads at a time; softmax is combined over partitions in order of position."""


def padded_rows(rows: int) -> int:
    """`rows` rounded up to whole tiles."""
    return -(-rows // TILE_ROWS) * TILE_ROWS


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product x @ weight.T, plus bias.

    Args:
        x: [rows, in] float32, rows a multiple of `TILE_ROWS`.
        weight: [out, in] float32.
        bias: [out] float32.

    Returns:
        [rows, out] float32.
    """
    rows, width = x.shape
    tiles = rows // TILE_ROWS
    transposed = weight.t().unsqueeze(0).expand(tiles, width, weight.shape[0])
    product = torch.bmm(x.view(tiles, TILE_ROWS, width), transposed).view(rows, weight.shape[0])
    return product if bias is None else product.add_(bias)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm over the last axis (https://arxiv.org/abs/1910.07467). Shapes: [..., width], [width]."""
    mean_square = (x * x).sum(-1, keepdim=True) / x.shape[-1]
    return x / torch.sqrt(mean_square + eps) * weight


def gated(gate_up: Tensor) -> Tensor:
    """silu(gate) * up, of [rows, 2 * inner] that holds gate, then up."""
    gate, up = gate_up.chunk(2, dim=-1)
    return gate / (torch.exp(-gate) + 1.0) * up


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding on split halves (https://arxiv.org/abs/2104.09864).

    Args:
        x: [rows, heads, head_dim].
        cos: [rows, 1, head_dim / 2], of each row's position.
        sin: the same.
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def write_kv(cache: Tensor, kv_rows: Tensor, values: Tensor) -> None:
    """Stores keys, or values, of new tokens; all of a step's are stored before attention reads any.

    Args:
        cache: [kv_heads, num_blocks, block_size, head_dim] of one layer.
        kv_rows: [tokens] int64; block * block_size + offset.
        values: [rows, kv_heads, head_dim]; rows after the tokens are padding.
    """
    cache.flatten(1, 2).index_copy_(1, kv_rows, values[: len(kv_rows)].transpose(0, 1))


@dataclass(frozen=True, slots=True)
class TileRun:
    """Tiles of queries that read one key partition after the other together.

    Either each tile belongs to a sequence of its own (`blocks` has one row per tile), or all belong to one
    sequence (`blocks` has one row).
    """

    query_rows: Tensor
    """[tiles, tile_queries] int64: rows of the batch; a short tile repeats its last one."""
    positions: Tensor
    """[tiles, tile_queries] int64."""
    blocks: Tensor
    """[sequences, partitions * blocks per partition] int64; blocks past a sequence's end are 0."""
    lengths: tuple[int, ...]
    """Of each sequence: tokens whose keys and values are stored."""
    output_rows: Tensor
    """[real queries] int64: where results go."""
    output_index: Tensor
    """[real queries] int64: the flat place of each in [tiles, tile_queries]."""


def tile_queries(heads_per_kv_head: int) -> int:
    """Queries in a tile: heads that share keys share a tile, in which each is a row."""
    return max(1, TILE_ROWS // heads_per_kv_head)


def attention(queries: Tensor, keys: Tensor, values: Tensor, runs: list[TileRun]) -> Tensor:
    """Causal attention of ragged queries over a block table.

    Args:
        queries: [rows, heads, head_dim], rows of the whole batch; rows that no run names give zeros.
        keys: [kv_heads, num_blocks, block_size, head_dim] of one layer.
        values: the same.
        runs: of each sequence in the step.

    Returns:
        [rows, heads, head_dim].
    """
    rows, heads, head_dim = queries.shape
    kv_heads = keys.shape[0]
    scaled = (queries * head_dim**-0.5).view(rows, kv_heads, heads // kv_heads, head_dim)
    output = torch.zeros_like(scaled)
    for run in runs:
        tiles = _query_tiles(scaled, run)
        attended = _attend_run(tiles, keys, values, run, heads // kv_heads)
        per_query = _queries_of_tiles(attended, heads // kv_heads)
        output[run.output_rows] = per_query[run.output_index]
    return output.view(rows, heads, head_dim)


def _query_tiles(scaled: Tensor, run: TileRun) -> Tensor:
    """[kv_heads, tiles, tile rows, head_dim]; a tile row is (query, head of the group), zeros at the end."""
    tiles, width = run.query_rows.shape
    _, kv_heads, group, head_dim = scaled.shape
    grouped = scaled[run.query_rows].permute(2, 0, 1, 3, 4).reshape(kv_heads, tiles, width * group, head_dim)
    return torch.nn.functional.pad(grouped, (0, 0, 0, padded_rows(width * group) - width * group))


def _queries_of_tiles(attended: Tensor, group: int) -> Tensor:
    """[tiles * tile_queries, kv_heads, group, head_dim] of [kv_heads, tiles, tile rows, head_dim]."""
    kv_heads, tiles, _, head_dim = attended.shape
    width = tile_queries(group)
    real = attended[:, :, : width * group].reshape(kv_heads, tiles * width, group, head_dim)
    return real.transpose(0, 1)


def _attend_run(tiles: Tensor, keys: Tensor, values: Tensor, run: TileRun, group: int) -> Tensor:
    """Softmax over partitions in order, with a running maximum (https://arxiv.org/abs/1805.02867).

    A partition that lies wholly after a row's position changes none of its bits: its weights are exactly zero and
    the old sums are scaled by exactly one.
    """
    kv_heads, num_tiles, rows, _ = tiles.shape
    positions = _tile_positions(run.positions, group, rows)
    best = tiles.new_full((kv_heads, num_tiles, rows, 1), float("-inf"))
    total = tiles.new_zeros(kv_heads, num_tiles, rows, 1)
    weighted = torch.zeros_like(tiles)
    blocks_per_partition = PARTITION // keys.shape[2]
    for partition in range(run.blocks.shape[1] // blocks_per_partition):
        first = partition * PARTITION
        blocks = run.blocks[:, partition * blocks_per_partition : (partition + 1) * blocks_per_partition]
        token = torch.arange(first, first + PARTITION)
        key = _partition(keys, blocks)
        value = _partition(values, blocks)
        # Beyond the end of a sequence lies whatever the block held before: not even a zero weight may meet it.
        for sequence, length in enumerate(run.lengths):
            value[:, sequence, max(0, length - first) :] = 0.0
        scores = _tile_product(tiles, key.transpose(2, 3))
        scores.masked_fill_(token > positions, float("-inf"))
        new_best = torch.maximum(best, scores.amax(-1, keepdim=True))
        weights = torch.exp(scores.sub_(new_best))
        decay = torch.exp(best - new_best)
        total = total * decay + weights.sum(-1, keepdim=True)
        weighted = weighted * decay + _tile_product(weights, value)
        best = new_best
    return weighted / total


def _tile_positions(positions: Tensor, group: int, rows: int) -> Tensor:
    """[tiles, rows, 1]: the position of each tile row; rows that only pad a tile stand at position 0."""
    expanded = positions.repeat_interleave(group, dim=1)
    return torch.nn.functional.pad(expanded, (0, rows - expanded.shape[1])).unsqueeze(-1)


def _partition(cache: Tensor, blocks: Tensor) -> Tensor:
    """[kv_heads, sequences, PARTITION, head_dim], a copy."""
    kv_heads, _, _, head_dim = cache.shape
    return cache.index_select(1, blocks.flatten()).view(kv_heads, blocks.shape[0], PARTITION, head_dim)


def _tile_product(left: Tensor, right: Tensor) -> Tensor:
    """[kv_heads, tiles, rows, n] of [kv_heads, tiles, rows, k] x [kv_heads, tiles or 1, k, n]; one product per tile."""
    kv_heads, tiles, rows, _ = left.shape
    if right.shape[1] == tiles:
        product = torch.bmm(left.flatten(0, 1), right.flatten(0, 1))
        return product.view(kv_heads, tiles, rows, -1)
    shared = (torch.bmm(left[head], right[head].expand(tiles, -1, -1)) for head in range(kv_heads))
    return torch.stack(tuple(shared))
