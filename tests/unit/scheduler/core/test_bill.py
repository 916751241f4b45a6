from services.scheduler.core.bill import Account, Overhead


def test_a_chunk_is_booked_as_recomputed_below_the_mark():
    """Above it, prompt tokens count as computed, tokens of the answer as neither."""
    account = Account()
    account.compute(0, 40, mark=10, prompt_length=30)
    assert (account.recomputed_tokens, account.computed_prompt_tokens) == (10, 20)
    account.compute(40, 50, mark=45, prompt_length=30)
    assert (account.recomputed_tokens, account.computed_prompt_tokens) == (15, 20)


def test_blocks_are_booked_by_the_time_they_are_held():
    """Two blocks for 10 us and three for 5."""
    account = Account(blocks_since_us=100)
    account.hold_blocks(2, 110)
    account.hold_blocks(3, 115)
    assert account.close(4).kv_block_us == 35


def test_a_bill_is_in_microseconds():
    """Shares are kept in nanoseconds."""
    assert Account(executor_ns=5_999).close(1).executor_us == 5


def test_overhead_is_kept_by_cause():
    """Sums of nanoseconds."""
    overhead = Overhead()
    overhead.add("ended", 3)
    overhead.add("ended", 4)
    assert overhead.ns == {"ended": 7, "unbilled": 0, "rounding": 0}
