"""An engine whose steps take a fixed time, one for each token and one for each token of context, and that draws anything."""

import dataclasses

from benchmarks.instant_executor import InstantExecutor
from services.wire.execution import StepPlan, StepResult


class PacedEngine(InstantExecutor):
    """For promises about time, over many steps: it checks nothing."""

    def __init__(
        self, *, num_blocks: int = 4096, fixed_us: int = 2000, token_us: int = 50, context_token_ns: int = 20
    ) -> None:
        super().__init__(num_blocks)
        self._fixed_us = fixed_us
        self._token_us = token_us
        self._context_token_ns = context_token_ns
        self._step_us = 0

    def step(self, plan: StepPlan) -> StepResult:
        return dataclasses.replace(super().step(plan), step_us=self._step_us)

    def _update(self, plan: StepPlan) -> None:
        super()._update(plan)
        decoding = self._computed[self._decoding]
        num_tokens = len(decoding) + int(plan.chunk_counts.sum())
        context = int((decoding + 1).sum() + (self._computed[plan.chunk_slots] + plan.chunk_counts).sum())
        self._step_us = self._fixed_us + self._token_us * num_tokens + self._context_token_ns * context // 1000
