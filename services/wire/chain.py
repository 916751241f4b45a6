"""The chain of block hashes: what the prefix cache is keyed by, and what requests are routed by.

hash(block i) = BLAKE2b-128(hash(block i - 1) + token ids of block i, packed int32); the chain's root stands before block 0
and holds the tenant's salt and the adapter, so that nobody can find a block of another tenant or adapter.
"""

from collections.abc import Iterator
from hashlib import blake2b

from services.wire.message import INT32, Int32Column
from services.wire.scheduling import HASH_BYTES


def chain_root(tenant_salt: bytes, adapter: str = "") -> bytes:
    """The 16 bytes before a chain's first block."""
    return blake2b(adapter.encode(), key=tenant_salt[:64], digest_size=HASH_BYTES).digest()


def extend(parent: bytes, block: bytes) -> bytes:
    """The hash of a full block (packed token ids) that follows `parent`."""
    return blake2b(parent + block, digest_size=HASH_BYTES).digest()


def block_hashes(root: bytes, token_ids: Int32Column, block_size: int) -> Iterator[bytes]:
    """The hash of each full block of `token_ids`, in order."""
    packed = token_ids.astype(INT32, copy=False).tobytes()
    width = INT32.itemsize * block_size
    for start in range(0, len(packed) - width + 1, width):
        root = extend(root, packed[start : start + width])
        yield root
