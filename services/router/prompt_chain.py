"""A prompt chain: a prompt's tokens and the hashes of its blocks, by which the scheduler finds them in its prefix cache."""

import asyncio
from collections.abc import Sequence

from services.wire import chain
from services.wire.message import Int32Column, int32_column

_MAX_TOKENS_ON_LOOP = 2048  # hashing more than this takes long enough to be felt between two tokens of others


class PromptChain:
    """The tokens of one prompt and the chain of its full blocks; extended over accepted tokens on a resubmission."""

    def __init__(self, token_ids: Int32Column, root: bytes, block_size: int) -> None:
        self.token_ids = token_ids
        self.root = root
        self._block_size = block_size
        self._hashes = b"".join(chain.block_hashes(root, token_ids, block_size))

    @classmethod
    async def of(cls, token_ids: Int32Column, root: bytes, block_size: int) -> "PromptChain":
        """The chain of a prompt, computed in a thread when it is long."""
        if len(token_ids) <= _MAX_TOKENS_ON_LOOP:
            return cls(token_ids, root, block_size)
        return await asyncio.to_thread(cls, token_ids, root, block_size)

    def __len__(self) -> int:
        return len(self.token_ids)

    def extended(self, accepted: Sequence[int], block_size: int) -> tuple[Int32Column, bytes]:
        """All known tokens, and the hashes of their full blocks of `block_size`."""
        if not accepted and block_size == self._block_size:
            return self.token_ids, self._hashes
        known = int32_column([*self.token_ids.tolist(), *accepted])
        if block_size != self._block_size:
            return known, b"".join(chain.block_hashes(self.root, known, block_size))
        num_hashed = len(self.token_ids) // block_size * block_size
        parent = self._hashes[-len(self.root) :] or self.root
        rest = b"".join(chain.block_hashes(parent, known[num_hashed:], block_size))
        return known, self._hashes + rest
