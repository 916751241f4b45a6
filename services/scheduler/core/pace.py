"""The pace: how many tokens a step may compute so that those who decode in it wait no longer than was promised."""

from services.scheduler.core.running import Running
from services.scheduler.core.step_cost import StepCost


class Pace:
    """Chooses the token budget of each step in which a prompt may be computed beside decodes."""

    def __init__(self, running: Running, cost: StepCost, *, token_budget: int, target_us: int) -> None:
        self._running = running
        self._cost = cost
        self._token_budget = token_budget
        self._target_us = target_us

    def target_us(self, num_decodes: int) -> int:
        """The time between tokens that is promised to those who decode, to all or to the class of one; 0: none."""
        promises = [promise for promise in (self._target_us, self._running.decode_tbt_us) if promise]
        return min(promises) if num_decodes and promises else 0

    def budget(self, num_decodes: int) -> int:
        """Tokens of the step, its decodes included, so that it is predicted to end within the target.

        Never less than the decodes and one block of a prompt, so that no prompt starves: a target below what the decodes
        take by themselves is missed by no more than that block. Prompts that start behind cached blocks are taken for
        new ones here, and cost what reading these costs more.
        """
        target_us = self.target_us(num_decodes)
        if not target_us:
            return self._token_budget
        running = self._running
        first = next(iter(running.prefilling), None) if running.has_prefilling else None
        start = running.computed(first) if first else 0
        spare_us = target_us - self._cost.predict_us(num_decodes, running.decode_context)
        num_prefill = self._cost.tokens_within(spare_us, start)
        if num_prefill < 0:
            return self._token_budget
        return min(self._token_budget, num_decodes + max(running.block_size, num_prefill))
