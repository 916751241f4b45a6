"""The KV pool's size."""

from services.executor.blocks import blocks_that_fit


def test_a_pool_is_sized_by_tokens_or_by_memory():
    """Tokens win where they are given; else memory is divided by what a token takes; never less than a block."""
    assert blocks_that_fit(256, 100, 1) == 6
    assert blocks_that_fit(256, 0, 1) == (1 << 20) // 256 // 16
    assert blocks_that_fit(256, 3, 1) == 1
