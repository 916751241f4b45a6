"""Progress: when steps ended, how long they take, and what that promises to those who wait."""

from services.scheduler.core.flight import Flight
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from services.scheduler.core.step_cost import StepCost
from services.scheduler.core.step_time import StepTime

STALL_US = 2_000_000
STALL_STEPS = 5
MIN_TIME_LIMIT_US, MAX_TIME_LIMIT_US = 10_000_000, 120_000_000
TIME_LIMIT_STEPS = 20
FRESH_US = 10_000_000
SURELY_HUNG_STEPS = 5


class Progress:
    """The clock side of the core."""

    def __init__(self, settings: CoreSettings) -> None:
        self.step_time = StepTime()
        self.cost = StepCost()
        self._token_budget = settings.token_budget
        self._moved_us = 0
        self.last_step_us = -1
        """When the newest result came; -1: none has."""
        self._last_num_tokens = 0
        self._full_step_us = -1

    def moved(self, at_us: int) -> None:
        """Something was computed, or there was nothing to compute until now."""
        self._moved_us = at_us

    def executor_came(self, session: Session, at_us: int) -> None:
        self._token_budget, self._full_step_us = session.token_budget, -1
        self.moved(at_us)

    def step_ended(self, flight: Flight, num_ran: int, step_us: int, at_us: int) -> None:
        """Of the flight's tokens `num_ran` were computed: the executor passes over those who have ended by themselves."""
        if num_ran:
            context = flight.num_context_tokens * num_ran // flight.num_tokens
            self.step_time.observe(num_ran, step_us)
            self._full_step_us = -1
            self.cost.observe(num_ran, context, step_us, predicted_us=flight.predicted_us)
        self._moved_us = self.last_step_us = at_us
        self._last_num_tokens = flight.num_tokens

    @property
    def full_step_us(self) -> int:
        """How long a step that uses the whole budget is predicted to take."""
        if self._full_step_us < 0:
            self._full_step_us = self.step_time.predict_us(self._token_budget)
        return self._full_step_us

    def predicted_us(self, in_flight: Flight | None) -> int:
        """Of the step that the executor computes now; while it computes none, of one like the newest."""
        return self.step_time.predict_us(in_flight.num_tokens if in_flight else self._last_num_tokens)

    def is_recent(self, at_us: int, in_flight: Flight | None) -> bool:
        """Whether the newest step is no older than one that is late; `in_flight` is the step computed now, if any."""
        return at_us - self._moved_us <= max(STALL_US, STALL_STEPS * self.predicted_us(in_flight))

    def last_step_age_us(self, at_us: int) -> int:
        """0 before the first."""
        return max(0, at_us - self.last_step_us) if self.last_step_us >= 0 else 0

    def time_limit_us(self, num_tokens: int) -> int:
        """A step older than this is hung: twenty predictions, but at least 10 s and at most 120 s.

        Only a size known to take longer than 24 s has more than that: five predictions. It costs an executor its life,
        so a step larger than any seen is given what it may take at worst; readiness does not wait for it.
        """
        limit_us = max(MIN_TIME_LIMIT_US, TIME_LIMIT_STEPS * self.step_time.longest_us(num_tokens))
        if limit_us <= MAX_TIME_LIMIT_US:
            return limit_us
        return min(limit_us, max(MAX_TIME_LIMIT_US, SURELY_HUNG_STEPS * self.step_time.predict_us(num_tokens)))

    def prompts_us(self, num_tokens: int) -> int:
        """How long prompts of so many tokens together take to compute with all of the budget."""
        return -(-num_tokens // self._token_budget) * self.full_step_us

    def wait_us(self, queue: WaitingQueue, before: Sequence) -> int:
        """The same of the prompts that wait before `before`."""
        num_tokens = 0
        for sequence in queue:
            if sequence is before:
                break
            num_tokens += sequence.num_stored
        return self.prompts_us(num_tokens)

    def prompt_us(self, num_tokens: int, at_us: int) -> int:
        """How long a prompt takes alone; 0, which promises nothing, unless steps of several sizes have ended of late.

        A model that one slow step has spoilt must not refuse all those whose steps would put it right. Nor must one
        that has seen nothing but decodes.
        """
        if not self.cost.is_fitted or at_us - self.last_step_us > FRESH_US:
            return 0
        num_steps = -(-num_tokens // self._token_budget)
        fixed_us, context = self.cost.predict_us(0, 0), num_tokens * (num_steps + 1) // 2
        return (num_steps - 1) * fixed_us + self.cost.predict_us(num_tokens, context)

    def turnover_us(self, running: Running, num_ends: int) -> int:
        """How long until so many of the running have ended; -1: fewer run, or no step has been measured.

        All are taken to go on to their limits: one that draws a stop token, or is cancelled, ends sooner.
        """
        if num_ends < 1:
            return 0
        remaining = sorted(sequence.limit - running.known(sequence) for sequence in running)
        decode_us = self.decode_us(len(remaining))
        return remaining[num_ends - 1] * decode_us if num_ends <= len(remaining) and decode_us else -1

    def decode_us(self, num_sequences: int) -> int:
        """How long until each of so many has decoded one token."""
        num_turns = -(-num_sequences // self._token_budget)
        return num_turns * self.step_time.predict_us(min(num_sequences, self._token_budget))
