import pytest

from services.scheduler.core.prefix_index import PrefixIndex


def test_the_longest_known_start_is_found():
    """Blocks in order, up to the first that is unknown."""
    index = PrefixIndex(4)
    index.add(b"h0", b"t0", 3)
    index.add(b"h1", b"t1", 1)
    assert index.longest([(b"h0", b"t0"), (b"h1", b"t1"), (b"h2", b"t2"), (b"h0", b"t0")]) == [3, 1]


def test_a_hash_is_not_believed_without_its_tokens():
    """Equal hashes over other token ids are no hit."""
    index = PrefixIndex(4)
    index.add(b"h0", b"t0", 3)
    assert index.longest([(b"h0", b"other")]) == []


def test_the_first_block_of_a_hash_stays():
    """A second block with the same content is not indexed."""
    index = PrefixIndex(4)
    assert index.add(b"h0", b"t0", 3)
    assert not index.add(b"h0", b"t0", 2)
    assert index.longest([(b"h0", b"t0")]) == [3]


def test_a_removed_block_is_not_found():
    """Remove undoes add."""
    index = PrefixIndex(4)
    index.add(b"h0", b"t0", 3)
    index.remove(3)
    assert b"h0" not in index
    assert len(index) == 0
    index.check_integrity([False] * 4)


def test_integrity_notices_a_cached_block_that_is_not_found():
    """Index and pool must agree."""
    with pytest.raises(AssertionError, match="cached"):
        PrefixIndex(2).check_integrity([True, False])
