"""Preemption: who gives way when blocks run out, and when it may come back."""

from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence


def victim(running: Running) -> Sequence:
    """First come, first served: the newest gives way, so never one that is older than the one in need."""
    return running.newest


def headroom_blocks(sequence: Sequence, running: Running, num_blocks: int) -> int:
    """Blocks that must stay idle when `sequence`, which needs `num_blocks` now, is admitted.

    A newcomer leaves one for each that runs: nobody gives way within the next block. One that has been preempted comes
    back only when all that run, and it, can grow to their limits. Those admitted after it give way before it, so it
    never gives way a second time, and no sequence is computed more than twice.
    """
    to_the_limits = running.growth + running.final_blocks(sequence) - num_blocks
    if sequence.was_preempted:
        return to_the_limits
    return min(len(running) + 1, to_the_limits)
