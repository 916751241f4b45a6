"""A core and an executor that answers at once, step after step, with the CPU time that each step cost the core."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.instant_executor import BLOCK_SIZE, STEP_US, VOCAB_SIZE, InstantExecutor
from services.scheduler.core.core import Core
from services.scheduler.core.settings import CoreSettings
from services.wire import codec
from services.wire.chain import block_hashes, chain_root
from services.wire.event_log import Event, ExecutorUp, LogEvent, RoutedSubmit, SessionOpened
from services.wire.execution import GREEDY, Reset, StepPlan, ToExecutor
from services.wire.message import int32_column
from services.wire.scheduling import StepRecord, Submit

ROUTER = 1
SESSION = 2**63 - 25  # as long on the wire as one that is drawn
APPEND_BYTES = 8  # of a block boundary that is crossed, on the wire


@dataclass(frozen=True, slots=True)
class Step:
    """One step, and what it cost."""

    cost_us: float
    plan: StepPlan
    record: StepRecord

    @property
    def num_crossings(self) -> int:
        return len(self.plan.append_slots)

    @property
    def frame_bytes(self) -> int:
        """The plan as it goes to the executor."""
        return len(codec.encode(ToExecutor(session=SESSION, body=self.plan)))

    @property
    def fixed_bytes(self) -> int:
        """Of these, what is not for a block boundary."""
        return self.frame_bytes - APPEND_BYTES * self.num_crossings


class CoreLoop:
    """Steps are 5 ms apart on the core's clock, and `pause_s` on the wall."""

    def __init__(
        self,
        *,
        max_slots: int,
        num_blocks: int,
        token_budget: int,
        pause_s: float = 0.0,
        clock_ns: Callable[[], int] = time.process_time_ns,
    ) -> None:
        settings = CoreSettings(
            max_slots=max_slots, token_budget=token_budget, max_waiting_requests=2**20, max_waiting_tokens=2**30
        )
        self._core = Core(settings)
        self._executor = InstantExecutor(num_blocks)
        self._pause_s = pause_s
        self._clock_ns = clock_ns
        self._at_us = 0
        self._num_requests = 0
        self._random = np.random.default_rng(0)
        self._root = chain_root(b"benchmark")
        capacity = self._executor.reset(SESSION, Reset(max_slots=max_slots, max_step_tokens=token_budget))
        self._tell(SessionOpened(router=ROUTER))
        self._tell(ExecutorUp(session=SESSION, capacity=capacity))

    def request(self, prompt_length: int, max_tokens: int) -> Submit:
        """A request like no other, as it comes from a router: with its hashes."""
        self._num_requests += 1
        token_ids = int32_column(self._random.integers(0, VOCAB_SIZE, prompt_length))
        return Submit(
            handle=self._num_requests,
            request_id=f"request-{self._num_requests}",
            token_ids=token_ids,
            prompt_length=prompt_length,
            chain_root=self._root,
            block_hashes=b"".join(block_hashes(self._root, token_ids, BLOCK_SIZE)),
            sampling=GREEDY,
            max_tokens=max_tokens,
        )

    def step(self, arrivals: Sequence[Submit] = ()) -> Step:
        """Counted: taking the arrivals in, planning, reading the result, and the messages to the router."""
        if self._pause_s:
            time.sleep(self._pause_s)
        submits = [RoutedSubmit(router=ROUTER, submit=submit) for submit in arrivals]
        began_ns = self._clock_ns()
        for submit in submits:
            self._tell(submit)
        planned = self._core.plan(self._at_us)
        cost_ns = self._clock_ns() - began_ns
        assert planned is not None, "there is nothing to compute"
        plan, record = planned
        result = self._executor.step(plan)
        self._at_us += STEP_US
        began_ns = self._clock_ns()
        self._tell(result)
        self._core.take_outputs()
        cost_ns += self._clock_ns() - began_ns
        return Step(cost_ns / 1000, plan, record)

    def check(self) -> None:
        """Raises AssertionError unless the core's books balance."""
        self._core.check_integrity()

    def _tell(self, event: Event) -> None:
        self._core.handle(LogEvent(at_us=self._at_us, body=event))
