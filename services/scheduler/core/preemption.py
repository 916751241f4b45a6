"""Preemption: who gives way when blocks run out, and when it may come back."""

from services.scheduler.core.policies.policy import Policy
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence

Standing = tuple[bool, int, int]


def standing(sequence: Sequence, policy: Policy) -> Standing:
    """The greatest gives way first: whoever would be the last to be admitted, the newest of equals.

    Not before all others one that has given way before: then there is another, for when the newest of those came back,
    all that ran could grow to their limits.
    """
    return not sequence.was_preempted, policy.turn(sequence, policy.rank(sequence)), sequence.order


def victim(running: Running, policy: Policy) -> Sequence:
    return max(running, key=lambda sequence: standing(sequence, policy))


def headroom_blocks(sequence: Sequence, running: Running, num_blocks: int) -> int:
    """Blocks that must stay idle when `sequence`, which needs `num_blocks` now, is admitted.

    A newcomer leaves one for each that runs: nobody gives way within the next block. One that has been preempted comes
    back only when all that run, and it, can grow to their limits. Somebody who came after it gives way before it, so it
    never gives way a second time, and no sequence is computed more than twice.
    """
    to_the_limits = running.growth + running.final_blocks(sequence) - num_blocks
    if sequence.was_preempted:
        return to_the_limits
    return min(len(running) + 1, to_the_limits)
