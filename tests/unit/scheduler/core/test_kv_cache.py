from services.scheduler.core.kv_cache import KvCache
from services.wire.chain import block_hashes
from services.wire.execution import Sampling
from services.wire.message import int32_column
from tests.unit.scheduler.core.helpers import ROOT, sequence


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


def test_blocks_that_only_those_hold_who_would_leave_count_as_idle():
    """Of two that share two blocks one leaves one behind, both together leave four."""
    kv = KvCache(5, 16, prefix_cache=True)
    first = placed(kv, 1, prompt=[5] * 48)
    kv.publish(first, 32)
    second = placed(kv, 2, prompt=[5] * 48)
    assert second.num_hits == 2
    other = sequence(3, prompt=[6] * 32)
    assert kv.can_place(other, [], 0, [first])
    assert not kv.can_place(other, [], 1, [first])
    assert kv.can_place(other, [], 3, [first, second])
    assert not kv.can_place(other, [], 4, [first, second])
    alike = sequence(4, prompt=[5] * 33)
    assert kv.can_place(alike, kv.match(alike), 2, [first, second])
    assert not kv.can_place(alike, kv.match(alike), 3, [first, second])


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


def test_a_failure_takes_nothing_from_others():
    """Blocks that the failed one hit stay found; those that it filled itself do not."""
    kv = KvCache(16, 16, prefix_cache=True)
    first = placed(kv, 1, prompt=[5] * 48)
    kv.publish(first, 48)
    failed = placed(kv, 2, prompt=[5] * 32 + [6] * 32)
    kv.publish(failed, 64)
    assert len(kv.match(sequence(3, prompt=[5] * 32 + [6] * 33))) == 4
    kv.forget(failed)
    kv.release(failed)
    assert kv.match(sequence(4, prompt=[5] * 32 + [6] * 33)) == first.table[:2]
    assert len(kv.match(sequence(5, prompt=[5] * 49))) == 3
    kv.check_integrity([first])


def test_forged_hashes_put_nothing_behind_anothers_prefix():
    """A block filled behind other tokens is not found by those whose honest hash it bears."""
    kv = KvCache(16, 16, prefix_cache=True)
    honest = list(block_hashes(ROOT, int32_column([5] * 48), 16))
    liar = placed(kv, 1, prompt=[9] * 16 + [5] * 32, block_hashes=b"".join([bytes([1] * 16), *honest[1:]]))
    kv.publish(liar, 48)
    victim = placed(kv, 2, prompt=[5] * 49)
    assert victim.num_hits == 0
    kv.publish(victim, 48)
    assert kv.match(sequence(3, prompt=[5] * 49)) == victim.table[:3]


def test_what_follows_a_taken_hash_is_not_published():
    """A chain that cannot be found at one block is worth nothing behind it; the next admission begins anew."""
    kv = KvCache(16, 16, prefix_cache=True)
    honest = list(block_hashes(ROOT, int32_column([5] * 48), 16))
    kv.publish(placed(kv, 1, prompt=[9] * 16, block_hashes=honest[0]), 16)
    blocked = placed(kv, 2, prompt=[5] * 48)
    kv.publish(blocked, 48)
    assert len(kv.index) == 1
    kv.release(blocked)
    assert blocked.published_as is None
    kv.place(blocked, kv.match(blocked))
    assert blocked.published_as == ROOT


def test_one_that_comes_back_publishes_behind_what_it_hit():
    """Preempted and readmitted, its new blocks continue the chain of its old ones."""
    kv = KvCache(16, 16, prefix_cache=True)
    first = placed(kv, 1, prompt=[5] * 70)
    kv.publish(first, 40)
    kv.release(first)
    kv.place(first, kv.match(first))
    assert first.num_hits == 2
    kv.publish(first, 70)
    assert kv.match(sequence(2, prompt=[5] * 70)) == first.table[:4]
