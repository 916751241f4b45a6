"""The ragged batch."""

from services.executor.backends.reference_batch import build_batch
from services.executor.slots import Slot
from services.executor.work import Work
from services.wire.execution import GREEDY, AdmittedSlot
from services.wire.message import int32_column


def slot(tokens, blocks):
    column = int32_column(tokens)
    made = Slot(
        AdmittedSlot(
            slot=0,
            token_ids=column,
            prompt_length=len(column),
            token_limit=len(column),
            blocks=int32_column(),
            sampling=GREEDY,
        ),
        (),
    )
    for block in blocks:
        made.append_block(block)
    return made


def test_rows_are_the_tokens_of_each_item_then_padding():
    """Tokens, positions and cache rows line up; rows fill whole tiles."""
    batch = build_batch([Work(slot(range(100, 120), [7, 2]), 14, 4), Work(slot([9], [5]), 0, 1)], 1)
    assert batch.token_ids.tolist() == [114, 115, 116, 117, 9] + [0] * 11
    assert batch.positions.tolist() == [14, 15, 16, 17, 0] + [0] * 11
    assert batch.kv_rows.tolist() == [7 * 16 + 14, 7 * 16 + 15, 2 * 16, 2 * 16 + 1, 5 * 16]


def test_short_items_share_a_run_and_long_ones_have_their_own():
    """Heads in groups of three make tiles of five queries: four and one share a run, six queries are two tiles."""
    items = [Work(slot(range(20), [7, 2]), 14, 4), Work(slot(range(6), [1]), 0, 6), Work(slot([9], [5]), 0, 1)]
    own, shared = build_batch(items, 3).runs
    assert own.query_rows.tolist() == [[4, 5, 6, 7, 8], [9, 9, 9, 9, 9]]
    assert own.positions.tolist() == [[0, 1, 2, 3, 4], [5, 5, 5, 5, 5]]
    assert own.output_rows.tolist() == [4, 5, 6, 7, 8, 9]
    assert own.output_index.tolist() == [0, 1, 2, 3, 4, 5]
    assert own.blocks.tolist() == [[1] + [0] * 15]
    assert shared.query_rows.tolist() == [[0, 1, 2, 3, 3], [10, 10, 10, 10, 10]]
    assert shared.output_rows.tolist() == [0, 1, 2, 3, 10]
    assert shared.output_index.tolist() == [0, 1, 2, 3, 5]
    assert shared.blocks.tolist() == [[7, 2] + [0] * 14, [5] + [0] * 15]
    assert shared.lengths == (18, 1)


def test_a_short_sequence_does_not_read_the_partitions_of_a_long_one():
    """Sequences of very different length decode in different runs."""
    items = [Work(slot(range(20), [0, 1]), 19, 1), Work(slot(range(1500), range(94)), 1499, 1)]
    short, long = build_batch(items, 3).runs
    assert short.blocks.shape == (1, 16)
    assert long.blocks.shape == (1, 6 * 16)
