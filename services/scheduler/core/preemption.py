"""Preemption: who gives way when blocks run out, and when it may come back."""

from collections.abc import Collection

from services.scheduler.core.policies.policy import Policy
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence

Standing = tuple[bool, bool, int, int]


def standing(sequence: Sequence, policy: Policy) -> Standing:
    """The greatest gives way first: spare work, then whoever would be the last to be admitted, the newest of equals.

    Not before all others one that has given way before: then there is another, for when the newest of those came back,
    all that ran could grow to their limits. Spare work gives way as often as it must.
    """
    is_spare, turn = sequence.is_spare, policy.turn(sequence, policy.rank(sequence))
    return is_spare or not sequence.was_preempted, is_spare, turn, sequence.order


def victim(running: Running, policy: Policy) -> Sequence:
    return max(running, key=lambda sequence: standing(sequence, policy))


def headroom_blocks(sequence: Sequence, running: Running, num_blocks: int, without: Collection[Sequence] = ()) -> int:
    """Blocks that must stay idle when `sequence`, which needs `num_blocks` now, is admitted after `without` have left.

    A newcomer leaves one for each that runs: nobody gives way within the next block. Spare work is admitted, and one that
    has been preempted comes back, only when all that run, and it, can grow to their limits. Somebody who came after it gives way before it, so it
    never gives way a second time, and no sequence is computed more than twice.
    """
    growth = running.growth - sum(running.final_blocks(each) - len(each.table) for each in without)
    to_the_limits = growth + running.final_blocks(sequence) - num_blocks
    if sequence.was_preempted or sequence.is_spare:
        return to_the_limits
    return min(len(running) - len(without) + 1, to_the_limits)
