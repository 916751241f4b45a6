import pytest

from services.scheduler.core.prefix_index import PrefixIndex

ROOT = b"root"


def filled(*rows, num_blocks=4):
    """An index with one chain of (hash, tokens, block)."""
    index, parent = PrefixIndex(num_blocks), ROOT
    for chain_hash, tokens, block in rows:
        assert index.add(parent, chain_hash, tokens, block) == block
        parent = index.number(block)
    return index


def test_the_longest_known_start_is_found():
    """Blocks in order, up to the first that is unknown."""
    index = filled((b"h0", b"t0", 3), (b"h1", b"t1", 1))
    assert index.longest(ROOT, [(b"h0", b"t0"), (b"h1", b"t1"), (b"h2", b"t2"), (b"h0", b"t0")]) == [3, 1]


def test_a_hash_is_not_believed_without_its_tokens():
    """Equal hashes over other token ids are no hit."""
    assert filled((b"h0", b"t0", 3)).longest(ROOT, [(b"h0", b"other")]) == []


def test_a_block_is_not_found_behind_another_prefix():
    """The right hash and the right tokens, computed behind other tokens: it holds another's keys and values."""
    index = filled((b"forged", b"evil", 3), (b"h1", b"t1", 1))
    index.add(ROOT, b"h0", b"t0", 2)
    assert index.longest(ROOT, [(b"h0", b"t0"), (b"h1", b"t1")]) == [2]
    assert index.longest(b"other root", [(b"h0", b"t0")]) == []


def test_the_first_block_of_a_content_stays():
    """A second block with the same content is not indexed; the first is named, for the next block to stand behind."""
    index = filled((b"h0", b"t0", 3))
    assert index.add(ROOT, b"h0", b"t0", 2) == 3
    assert index.longest(ROOT, [(b"h0", b"t0")]) == [3]


def test_a_hash_that_means_other_tokens_is_not_taken_over():
    """The entry that is there stays, and nothing can be added."""
    index = filled((b"h0", b"t0", 3))
    assert index.add(ROOT, b"h0", b"other", 2) is None
    assert index.longest(ROOT, [(b"h0", b"t0")]) == [3]
    index.check_integrity([False, False, False, True])


def test_a_removed_block_is_not_found():
    """Remove undoes add."""
    index = filled((b"h0", b"t0", 3))
    index.remove(3)
    assert len(index) == 0
    assert index.longest(ROOT, [(b"h0", b"t0")]) == []
    index.check_integrity([False] * 4)


def test_an_orphan_is_not_found_behind_the_next_holder_of_its_parents_block():
    """The same block number with the same hash and tokens is a new entry: what stood behind the old one is not found."""
    index = filled((b"h0", b"t0", 3), (b"h1", b"t1", 1))
    index.remove(3)
    index.add(ROOT, b"h0", b"t0", 3)
    assert index.longest(ROOT, [(b"h0", b"t0"), (b"h1", b"t1")]) == [3]
    assert index.add(index.number(3), b"h1", b"t1", 0) == 0
    assert index.longest(ROOT, [(b"h0", b"t0"), (b"h1", b"t1")]) == [3, 0]
    index.check_integrity([True, True, False, True])


def test_integrity_notices_a_cached_block_that_is_not_found():
    """Index and pool must agree."""
    with pytest.raises(AssertionError, match="cached"):
        PrefixIndex(2).check_integrity([True, False])
