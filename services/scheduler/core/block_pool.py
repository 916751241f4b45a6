"""The pool of KV blocks: who holds each, and in which order idle ones are given away.

Idle blocks form one intrusive doubly linked list. Blocks without content of use stand at its front, cached ones behind
them, the least recently used first. Every operation on a block is O(1).
"""

from collections.abc import Callable, Iterable, Sequence


class BlockPool:
    """`num_blocks` blocks with holder counts. A cached block keeps its content while idle, until `take` evicts it."""

    def __init__(self, num_blocks: int, evict: Callable[[int], None]) -> None:
        """`evict(block)` is called when the content of a cached block is given up."""
        self.num_blocks = num_blocks
        self.num_idle = num_blocks
        self.num_idle_cached = 0
        self.num_releases = 0
        self._evict = evict
        self._holders = [0] * num_blocks
        self._cached = bytearray(num_blocks)
        # The sentinel `num_blocks` closes the ring: its next is the block to give away first.
        self._next = [*range(1, num_blocks + 1), 0]
        self._previous = [num_blocks, *range(num_blocks)]

    def holders(self, block: int) -> int:
        return self._holders[block]

    def is_cached(self, block: int) -> bool:
        return bool(self._cached[block])

    def can_take(self, count: int) -> bool:
        """Whether `take(count)` would succeed."""
        return self.num_idle >= count

    def take(self, count: int) -> list[int]:
        """`count` blocks with one holder each and no content; undone by `release`."""
        assert self.can_take(count)
        taken = []
        for _ in range(count):
            block = self._next[self.num_blocks]
            self._unlink(block)
            if self._cached[block]:
                self.num_idle_cached -= 1
                self._cached[block] = 0
                self._evict(block)
            self._holders[block] = 1
            taken.append(block)
        return taken

    def hold(self, blocks: Iterable[int]) -> None:
        """One more holder for each of these cached blocks; undone by `release`."""
        for block in blocks:
            if not self._holders[block]:
                assert self._cached[block]
                self._unlink(block)
                self.num_idle_cached -= 1
            self._holders[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """One holder less for each. Give a sequence's blocks in order: its last ones will be evicted first."""
        self.num_releases += 1
        for block in reversed(blocks):
            self._holders[block] -= 1
            if self._holders[block]:
                continue
            if self._cached[block]:
                self.num_idle_cached += 1
                self._link(block, self._previous[self.num_blocks])
            else:
                self._link(block, self.num_blocks)

    def cache(self, block: int) -> None:
        """From now on the block's content is worth keeping; undone by `uncache` or an eviction."""
        assert self._holders[block]
        assert not self._cached[block]
        self._cached[block] = 1

    def uncache(self, block: int) -> None:
        """The content of a held, cached block is of no use any more."""
        assert self._holders[block]
        assert self._cached[block]
        self._cached[block] = 0

    def _unlink(self, block: int) -> None:
        before, after = self._previous[block], self._next[block]
        self._next[before] = after
        self._previous[after] = before
        self.num_idle -= 1

    def _link(self, block: int, before: int) -> None:
        after = self._next[before]
        self._next[before] = self._previous[after] = block
        self._previous[block], self._next[block] = before, after
        self.num_idle += 1

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Free + cached + used = total, and the holders are exactly the rows of `tables`."""
        holders = [0] * self.num_blocks
        for table in tables:
            assert len(set(table)) == len(table), "a block is twice in one table"
            for block in table:
                holders[block] += 1
        assert holders == self._holders, "a block has a holder that no sequence knows, or lacks one"
        idle, block = [], self._next[self.num_blocks]
        while block != self.num_blocks:
            assert not self._holders[block], "a held block is in the list of idle ones"
            assert self._previous[self._next[block]] == block, "a link is broken"
            idle.append(block)
            block = self._next[block]
        used = sum(1 for count in holders if count)
        assert len(idle) == self.num_idle == self.num_blocks - used, "free + cached + used is not the total"
        assert sum(self._cached[block] for block in idle) == self.num_idle_cached
