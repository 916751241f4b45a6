"""Seeds: where the randomness of an answer comes from."""

import secrets
from hashlib import blake2b


def draw_seed() -> int:
    """A seed for a request that names none; 63 bits, so that it fits a signed integer of any client's language."""
    return secrets.randbits(63)


def answer_seed(seed: int, answer_index: int, answer_count: int) -> int:
    """The seed that answer `answer_index` of `answer_count` draws from.

    The only answer draws from the request's own seed, so that it can be resumed with it. One of several draws from
    BLAKE2b-64(seed as uint64, index as uint32, both little-endian), read as a little-endian uint64.
    """
    if answer_count == 1:
        return seed
    packed = seed.to_bytes(8, "little") + answer_index.to_bytes(4, "little")
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "little")
