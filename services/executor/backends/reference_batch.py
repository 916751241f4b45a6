"""The reference back end's batch: the ragged rows of one step as tensors, built once and read by every layer."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kernels import reference
from services.executor.blocks import BLOCK_SIZE
from services.executor.slots import Slot
from services.executor.work import Work

_BLOCKS_PER_PARTITION = reference.PARTITION // BLOCK_SIZE

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of a step: the tokens of its work items one after the other, then padding to whole tiles."""

    token_ids: Tensor
    """[rows] int64; 0 in padding."""
    positions: Tensor
    """[rows] int64; 0 in padding."""
    kv_rows: Tensor
    """[tokens] int64: where each token's key and value go, block * block size + offset."""
    runs: list[reference.TileRun]


def build_batch(work: Sequence[Work], heads_per_kv_head: int) -> Batch:
    """Lays out the rows of `work`."""
    positions = [np.arange(item.start, item.end) for item in work]
    ends = np.cumsum([item.count for item in work])
    first_rows = tuple(int(end) - item.count for end, item in zip(ends, work, strict=True))
    kv_rows = [_kv_rows(item.slot, rows) for item, rows in zip(work, positions, strict=True)]
    token_ids = [item.slot.tokens[item.start : item.end] for item in work]
    padding = reference.padded_rows(int(ends[-1])) - int(ends[-1])
    return Batch(
        token_ids=_padded(token_ids, padding),
        positions=_padded(positions, padding),
        kv_rows=torch.from_numpy(np.concatenate(kv_rows)),
        runs=_tile_runs(work, first_rows, reference.tile_queries(heads_per_kv_head)),
    )


def _kv_rows(slot: Slot, positions: Ints) -> Ints:
    return slot.blocks[positions // BLOCK_SIZE].astype(np.int64) * BLOCK_SIZE + positions % BLOCK_SIZE


def _padded(columns: Sequence[npt.NDArray[np.integer]], padding: int) -> Tensor:
    return torch.from_numpy(np.concatenate([*columns, np.zeros(padding, np.int64)]).astype(np.int64, copy=False))


def _tile_runs(work: Sequence[Work], first_rows: Sequence[int], width: int) -> list[reference.TileRun]:
    """Sequences of one tile go together where they read about as many partitions (up to the same power of two)."""
    runs = []
    together: dict[int, list[tuple[Work, int]]] = defaultdict(list)
    for item, first_row in zip(work, first_rows, strict=True):
        if item.count > width:
            runs.append(_run([(item, first_row)], width))
        else:
            together[(_partitions(item) - 1).bit_length()].append((item, first_row))
    return runs + [_run(items, width) for items in together.values()]


def _partitions(item: Work) -> int:
    return -(-item.end // reference.PARTITION)


def _run(items: Sequence[tuple[Work, int]], width: int) -> reference.TileRun:
    """One run: several work items of one tile each, or one of several tiles."""
    blocks = np.zeros((len(items), max(_partitions(item) for item, _ in items) * _BLOCKS_PER_PARTITION), np.int64)
    rows, positions, output_rows, output_index = [], [], [], []
    tiles = 0
    for place, (item, first_row) in enumerate(items):
        used = -(-item.end // BLOCK_SIZE)
        blocks[place, :used] = item.slot.blocks[:used]
        num_tiles = -(-item.count // width)
        offsets = np.minimum(np.arange(num_tiles * width), item.count - 1)
        rows.append(first_row + offsets)
        positions.append(item.start + offsets)
        output_rows.append(first_row + np.arange(item.count))
        output_index.append(tiles * width + np.arange(item.count))
        tiles += num_tiles
    return reference.TileRun(
        query_rows=torch.from_numpy(np.concatenate(rows).reshape(tiles, width)),
        positions=torch.from_numpy(np.concatenate(positions).reshape(tiles, width)),
        blocks=torch.from_numpy(blocks),
        lengths=tuple(item.end for item, _ in items),
        output_rows=torch.from_numpy(np.concatenate(output_rows)),
        output_index=torch.from_numpy(np.concatenate(output_index)),
    )
