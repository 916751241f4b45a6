"""The reference back end's KV cache."""

from services.executor.backends.reference_kv_cache import KvCache
from tests.support.tiny_model import tiny_config


def test_a_layer_is_a_view_of_the_pool():
    """What one layer writes lies in the pool."""
    cache = KvCache(tiny_config(), 3)
    keys, values = cache.layer(1)
    keys.fill_(1.0)
    values.fill_(2.0)
    assert keys.shape == (2, 3, 16, 8)
    assert (cache.keys[1] == 1).all()
    assert (cache.values[1] == 2).all()
