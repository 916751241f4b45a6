"""Preemption: who gives way when blocks run out, and when it may come back."""

from services.scheduler.core.policies.policy import Policy
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence


def victim(running: Running, policy: Policy) -> Sequence:
    """Whoever would be the last to be admitted, the newest of equals, among those that have never given way.

    There is such a one: when the newest of the others came back, all that ran then could grow to their limits.
    """
    policy.settle(running)
    candidates = [sequence for sequence in running if not sequence.was_preempted] or list(running)
    return max(candidates, key=lambda sequence: (policy.turn(sequence, policy.rank(sequence)), sequence.order))


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
