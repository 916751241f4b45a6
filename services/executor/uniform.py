"""The random numbers of sampling: one uniform for each (seed, position), from Philox4x64-10 and no state at all.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

_WORD = (1 << 64) - 1
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) with 53 random bits: key (seed, 0), counter (position, 0, 0, 0), first word of the output."""
    return (_philox((position, 0, 0, 0), (seed & _WORD, 0))[0] >> 11) * 2.0**-53


def _philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    a, b, c, d = counter
    low_key, high_key = key
    for _ in range(_ROUNDS):
        left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (right >> 64) ^ b ^ low_key, right & _WORD, (left >> 64) ^ d ^ high_key, left & _WORD
        low_key, high_key = (low_key + _WEYL[0]) & _WORD, (high_key + _WEYL[1]) & _WORD
    return a, b, c, d
