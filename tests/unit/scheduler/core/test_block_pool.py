import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from services.scheduler.core.block_pool import BlockPool


def test_blocks_without_content_are_given_away_before_cached_ones():
    """Then the cached ones, the least recently used first, each evicted once."""
    evicted: list[int] = []
    pool = BlockPool(4, evicted.append)
    first, second = pool.take(1), pool.take(1)
    pool.cache(first[0])
    pool.cache(second[0])
    pool.release(second)
    pool.release(first)
    pool.take(2)
    assert evicted == []
    assert pool.take(2) == second + first
    assert evicted == second + first


def test_the_last_blocks_of_a_sequence_are_evicted_first():
    """A shorter prefix is worth more than what hangs on it."""
    evicted: list[int] = []
    pool = BlockPool(3, evicted.append)
    table = pool.take(3)
    for block in table:
        pool.cache(block)
    pool.release(table)
    pool.take(2)
    assert evicted == [table[2], table[1]]


def test_a_held_block_is_idle_only_when_all_have_released_it():
    """Two holders, two releases."""
    pool = BlockPool(2, lambda _: None)
    (block,) = pool.take(1)
    pool.cache(block)
    pool.hold([block])
    pool.release([block])
    assert pool.num_idle == 1
    pool.release([block])
    assert (pool.num_idle, pool.num_idle_cached) == (2, 1)


def test_a_revived_block_is_not_evicted():
    """A hit on an idle cached block takes it out of the list."""
    evicted: list[int] = []
    pool = BlockPool(2, evicted.append)
    (block,) = pool.take(1)
    pool.cache(block)
    pool.release([block])
    pool.hold([block])
    assert not pool.can_take(2)
    assert pool.take(1) != [block]
    assert evicted == []


def test_integrity_notices_a_holder_that_nobody_knows():
    """A leak is an AssertionError."""
    pool = BlockPool(2, lambda _: None)
    table = pool.take(1)
    pool.check_integrity([table])
    with pytest.raises(AssertionError, match="holder"):
        pool.check_integrity([])


class PoolMachine(RuleBasedStateMachine):
    """Against a model that is a list of tables and a set of cached blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.cached: set[int] = set()
        self.tables: list[list[int]] = []
        self.pool = BlockPool(12, self.cached.remove)

    @rule(count=st.integers(1, 5))
    def take(self, count: int) -> None:
        assert self.pool.can_take(count) == (12 - len({block for table in self.tables for block in table}) >= count)
        if self.pool.can_take(count):
            self.tables.append(self.pool.take(count))

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def cache(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(data.draw(st.sampled_from(self.tables))))
        if block not in self.cached:
            self.cached.add(block)
            self.pool.cache(block)

    @precondition(lambda self: self.cached)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        blocks = data.draw(st.lists(st.sampled_from(sorted(self.cached)), min_size=1, unique=True))
        self.pool.hold(blocks)
        self.tables.append(blocks)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.pool.release(self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1))))

    @invariant()
    def balances(self) -> None:
        self.pool.check_integrity(self.tables)
        assert self.cached == {block for block in range(12) if self.pool.is_cached(block)}


TestPoolMachine = PoolMachine.TestCase
