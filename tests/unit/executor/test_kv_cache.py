"""The KV cache's size."""

from services.executor.kv_cache import KvCache, blocks_that_fit, bytes_per_token
from tests.support.tiny_model import tiny_config


def test_a_pool_is_sized_by_tokens_or_by_memory():
    """Tokens win where they are given; else memory is divided by what a token takes; never less than a block."""
    config = tiny_config()
    assert bytes_per_token(config) == 2 * 2 * 16 * 4  # keys and values, layers, KV width, bytes
    assert blocks_that_fit(config, 100, 1) == 6
    assert blocks_that_fit(config, 0, 1) == (1 << 20) // 256 // 16
    assert blocks_that_fit(config, 3, 1) == 1


def test_a_layer_is_a_view_of_the_pool():
    """What one layer writes lies in the pool."""
    cache = KvCache(tiny_config(), 3)
    keys, values = cache.layer(1)
    keys.fill_(1.0)
    values.fill_(2.0)
    assert keys.shape == (2, 3, 16, 8)
    assert (cache.keys[1] == 1).all()
    assert (cache.values[1] == 2).all()
