"""The KV cache: the blocks of sequences, shared where their beginnings are equal."""

from collections import Counter
from collections.abc import Collection, Iterable

from services.scheduler.core.block_pool import BlockPool
from services.scheduler.core.prefix_index import PrefixIndex
from services.scheduler.core.sequence import Sequence


class KvCache:
    """Block pool and prefix index of one executor session.

    A block is published when the step that fills it is planned: plans run in order, and in each layer a step writes all
    keys and values before it reads any, so even a sequence admitted in the same plan may use it.
    """

    def __init__(self, num_blocks: int, block_size: int, *, prefix_cache: bool) -> None:
        self.block_size = block_size
        self.index = PrefixIndex(num_blocks)
        self.pool = BlockPool(num_blocks, self.index.remove)
        self._prefix_cache = prefix_cache

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def match(self, sequence: Sequence) -> list[int]:
        """The cached blocks of its longest known start, which never covers its last token: that one is computed."""
        if not self._prefix_cache or sequence.needs_prompt_rows:
            return []
        whole = (sequence.num_stored - 1) // self.block_size
        hashes = sequence.chain(whole, self.block_size)
        chain = ((hashes[block], sequence.block_tokens(block, self.block_size)) for block in range(whole))
        return self.index.longest(sequence.submit.chain_root, chain)

    def can_place(self, sequence: Sequence, hits: list[int], headroom: int, without: Collection[Sequence] = ()) -> bool:
        """Whether all known tokens of `sequence` have room and `headroom` blocks stay idle.

        Or would have, when those of `without` had released their blocks.
        """
        left = Counter(block for each in without for block in each.table)
        idle = {block for block, count in left.items() if count == self.pool.holders(block)}
        revived = sum(1 for block in hits if block in idle or not self.pool.holders(block))
        fresh = self.blocks_for(sequence.num_stored) - len(hits)
        return self.pool.can_take(revived + fresh + headroom - len(idle))

    def place(self, sequence: Sequence, hits: list[int]) -> None:
        """Gives it a table for all known tokens; undone by `release`."""
        self.pool.hold(hits)
        sequence.table = hits + self.pool.take(self.blocks_for(sequence.num_stored) - len(hits))
        sequence.num_hits = sequence.num_published = len(hits)
        sequence.published_as = self.index.number(hits[-1]) if hits else sequence.submit.chain_root

    def grow(self, sequence: Sequence) -> int:
        """One more block at the end of its table."""
        (block,) = self.pool.take(1)
        sequence.table.append(block)
        return block

    def publish(self, sequence: Sequence, num_tokens: int) -> None:
        """Its first `num_tokens` are computed, or will be by a plan that leaves before any that uses their blocks."""
        whole = num_tokens // self.block_size
        if not self._prefix_cache or whole <= sequence.num_published:
            return
        hashes = sequence.chain(whole, self.block_size)
        for number in range(sequence.num_published, whole):
            if sequence.published_as is None:
                break
            block, tokens = sequence.table[number], sequence.block_tokens(number, self.block_size)
            found = self.index.add(sequence.published_as, hashes[number], tokens, block)
            if found == block:
                self.pool.cache(block)
            sequence.published_as = None if found is None else self.index.number(found)
        sequence.num_published = whole

    def forget(self, sequence: Sequence) -> None:
        """What it has computed is not to be trusted: nobody finds that any more. Its hits are the work of others."""
        for block in sequence.table[sequence.num_hits :]:
            if self.pool.is_cached(block):
                self.index.remove(block)
                self.pool.uncache(block)

    def release(self, sequence: Sequence) -> None:
        """Undoes `place` and each `grow`."""
        self.pool.release(sequence.table)
        sequence.table = []
        sequence.num_hits = sequence.num_published = 0
        sequence.published_as = None

    def check_integrity(self, sequences: Iterable[Sequence]) -> None:
        self.pool.check_integrity(sequence.table for sequence in sequences)
        self.index.check_integrity(self.pool.is_cached(block) for block in range(self.pool.num_blocks))
