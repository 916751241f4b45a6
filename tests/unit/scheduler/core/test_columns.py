import numpy as np

from services.scheduler.core.columns import NEVER, Columns


def test_tokens_are_kept_in_a_ring_of_two_blocks():
    """The newest 2 x 16 tokens of each slot are at their position modulo 32."""
    columns = Columns(3, 16)
    columns.known[1] = 15
    slots = np.array([1])
    for token in range(20):
        columns.append_tokens(slots, np.array([token], np.int32))
    assert columns.known.tolist() == [0, 35, 0]
    assert columns.tail[1, 0, 15] == 0
    assert columns.tail[1, 1].tolist() == list(range(1, 17))
    assert columns.tail[1, 0, :3].tolist() == [17, 18, 19]


def test_appending_returns_the_new_lengths():
    """One for each slot, in their order."""
    columns = Columns(4, 16)
    columns.known[:] = [5, 6, 7, 8]
    assert columns.append_tokens(np.array([3, 0]), np.array([1, 2], np.int32)).tolist() == [9, 6]


def test_a_cleared_slot_is_of_another_generation():
    """Results for the one that left must not reach the next."""
    columns = Columns(2, 16)
    columns.known[1], columns.step[1], columns.told[1], columns.ready[1] = 9, 1, 1, True
    columns.clear(1)
    assert columns.generation.tolist() == [0, 1]
    assert (columns.known[1], columns.step[1], columns.told[1], columns.event[1]) == (0, 0, 0, NEVER)
    assert not columns.ready[1]
