"""The prefix index: which block holds the keys and values of a chain of full blocks."""

from collections.abc import Iterable


class PrefixIndex:
    """Chain hash -> block. The token ids of a block are compared on a hit: a hash alone is never believed."""

    def __init__(self, num_blocks: int) -> None:
        self._block_of: dict[bytes, int] = {}
        self._hash_of: list[bytes | None] = [None] * num_blocks
        self._tokens_of: list[bytes | None] = [None] * num_blocks

    def __len__(self) -> int:
        return len(self._block_of)

    def __contains__(self, chain_hash: bytes) -> bool:
        return chain_hash in self._block_of

    def longest(self, chain: Iterable[tuple[bytes, bytes]]) -> list[int]:
        """The blocks of the longest known start of `chain`, a row of (hash, packed token ids) for each block."""
        found: list[int] = []
        for chain_hash, tokens in chain:
            block = self._block_of.get(chain_hash)
            if block is None or self._tokens_of[block] != tokens:
                break
            found.append(block)
        return found

    def add(self, chain_hash: bytes, tokens: bytes, block: int) -> bool:
        """Whether `block` is now the one that is found; not if another is already."""
        if self._block_of.setdefault(chain_hash, block) != block:
            return False
        self._hash_of[block], self._tokens_of[block] = chain_hash, tokens
        return True

    def remove(self, block: int) -> None:
        """Undoes `add`."""
        chain_hash = self._hash_of[block]
        assert chain_hash is not None
        del self._block_of[chain_hash]
        self._hash_of[block] = self._tokens_of[block] = None

    def check_integrity(self, cached: Iterable[bool]) -> None:
        """Exactly the cached blocks are found, each by its own hash."""
        for block, is_cached in enumerate(cached):
            chain_hash = self._hash_of[block]
            assert is_cached == (chain_hash is not None), "a cached block is not found, or a found one not cached"
            assert chain_hash is None or self._block_of[chain_hash] == block
        assert len(self._block_of) == sum(1 for chain_hash in self._hash_of if chain_hash is not None)
