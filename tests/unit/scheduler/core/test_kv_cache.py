from services.scheduler.core.kv_cache import KvCache
from services.wire.execution import Sampling
from tests.unit.scheduler.core.helpers import sequence


def placed(kv: KvCache, serial: int, **fields):
    made = sequence(serial, **fields)
    kv.place(made, kv.match(made))
    return made


def test_a_published_prefix_is_shared_by_the_next_sequence():
    """Full blocks only, and never the one that holds the last known token."""
    kv = KvCache(16, 16, prefix_cache=True)
    first = placed(kv, 1, prompt=[5] * 48)
    kv.publish(first, 48)
    second = placed(kv, 2, prompt=[5] * 48)
    assert second.table[:2] == first.table[:2]
    assert second.table[2] != first.table[2]
    kv.check_integrity([first, second])


def test_an_unfilled_block_is_not_published():
    """47 computed tokens fill two blocks."""
    kv = KvCache(16, 16, prefix_cache=True)
    first = placed(kv, 1, prompt=[5] * 64)
    kv.publish(first, 47)
    assert first.num_published == 2
    assert len(kv.match(sequence(2, prompt=[5] * 64))) == 2


def test_without_the_setting_nothing_is_shared():
    """prefix_cache False: neither published nor matched."""
    kv = KvCache(16, 16, prefix_cache=False)
    kv.publish(placed(kv, 1, prompt=[5] * 48), 48)
    assert kv.match(sequence(2, prompt=[5] * 48)) == []


def test_a_prompt_whose_logprobs_are_wanted_takes_no_hits():
    """Each of its positions has to be computed."""
    kv = KvCache(16, 16, prefix_cache=True)
    kv.publish(placed(kv, 1, prompt=[5] * 48), 48)
    assert kv.match(sequence(2, prompt=[5] * 48, sampling=Sampling(prompt_logprobs=0))) == []


def test_room_is_counted_without_the_idle_blocks_that_hits_revive():
    """Two idle hits and two fresh blocks need four idle ones."""
    kv = KvCache(4, 16, prefix_cache=True)
    first = placed(kv, 1, prompt=[5] * 40)
    kv.publish(first, 40)
    kv.release(first)
    other = sequence(2, prompt=[5] * 64)
    hits = kv.match(other)
    assert len(hits) == 2
    assert kv.can_place(other, hits, 0)
    assert not kv.can_place(other, hits, 1)


def test_forgotten_blocks_are_not_found():
    """What a failed sequence computed is not to be trusted."""
    kv = KvCache(16, 16, prefix_cache=True)
    first = placed(kv, 1, prompt=[5] * 48)
    kv.publish(first, 48)
    kv.forget(first)
    kv.release(first)
    assert kv.match(sequence(2, prompt=[5] * 48)) == []
    kv.check_integrity([])


def test_released_blocks_stay_cached_until_they_are_needed():
    """A later sequence still finds them, and a full pool evicts them."""
    kv = KvCache(4, 16, prefix_cache=True)
    first = placed(kv, 1, prompt=[5] * 40)
    kv.publish(first, 40)
    kv.release(first)
    assert len(kv.match(sequence(2, prompt=[5] * 40))) == 2
    placed(kv, 3, prompt=[6] * 64)
    assert kv.match(sequence(4, prompt=[5] * 40)) == []
