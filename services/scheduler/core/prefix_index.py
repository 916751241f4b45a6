"""The prefix index: which block holds the keys and values of a chain of full blocks."""

from collections.abc import Iterable
from itertools import count

Parent = int | bytes
"""What a block stands behind: the number of the entry before it, or the chain's root for a first block."""


class PrefixIndex:
    """(Parent, chain hash) -> block. Hashes only find entries, they prove nothing: they come from routers.

    What is believed rests on tokens alone. Each entry has a number that is never given again, and is known by the number of
    the entry that it was computed behind; a search goes from the root, entry by entry, and compares the token ids of each.
    An entry whose parent is gone is an orphan: nothing leads to it, and it waits to be evicted.
    """

    def __init__(self, num_blocks: int) -> None:
        self._block_of: dict[tuple[Parent, bytes], int] = {}
        self._key_of: list[tuple[Parent, bytes] | None] = [None] * num_blocks
        self._tokens_of: list[bytes] = [b""] * num_blocks
        self._number_of = [-1] * num_blocks
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._block_of)

    def longest(self, root: bytes, chain: Iterable[tuple[bytes, bytes]]) -> list[int]:
        """The blocks of the longest known start of `chain`, a row of (hash, packed token ids) for each block."""
        found: list[int] = []
        parent: Parent = root
        for chain_hash, tokens in chain:
            block = self._block_of.get((parent, chain_hash))
            if block is None or self._tokens_of[block] != tokens:
                break
            found.append(block)
            parent = self._number_of[block]
        return found

    def add(self, parent: Parent, chain_hash: bytes, tokens: bytes, block: int) -> int | None:
        """The block that is now found: `block`, or an earlier one of the same content. None: the hash means other tokens."""
        known = self._block_of.setdefault((parent, chain_hash), block)
        if known != block:
            return known if self._tokens_of[known] == tokens else None
        self._key_of[block], self._tokens_of[block] = (parent, chain_hash), tokens
        self._number_of[block] = next(self._numbers)
        return block

    def number(self, block: int) -> int:
        """What the next block of a chain has as its parent, where `block` is found."""
        return self._number_of[block]

    def remove(self, block: int) -> None:
        """Undoes `add`."""
        key = self._key_of[block]
        assert key is not None
        del self._block_of[key]
        self._key_of[block], self._tokens_of[block], self._number_of[block] = None, b"", -1

    def check_integrity(self, cached: Iterable[bool]) -> None:
        """Exactly the cached blocks are found, each by its own key."""
        for block, is_cached in enumerate(cached):
            key = self._key_of[block]
            assert is_cached == (key is not None), "a cached block is not found, or a found one not cached"
            assert key is None or self._block_of[key] == block
        numbers = [number for number in self._number_of if number >= 0]
        assert len(self._block_of) == len(numbers) == len(set(numbers)), "two entries have one number"
