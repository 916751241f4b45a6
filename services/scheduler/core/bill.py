"""The bill: what a sequence cost, and what was spent on nobody."""

from dataclasses import dataclass, field

from services.wire.scheduling import Bill


@dataclass(slots=True)
class Account:
    """What one sequence has cost so far. Shares of steps are collected in the Columns and booked when it leaves its slot."""

    computed_prompt_tokens: int = 0
    cached_tokens: int = 0
    recomputed_tokens: int = 0
    steps: int = 0
    kv_block_us: int = 0
    executor_ns: int = 0
    admitted_us: int = -1
    first_token_us: int = -1
    blocks_since_us: int = 0

    def hold_blocks(self, num_blocks: int, at_us: int) -> None:
        """Books the time since the last call with `num_blocks` held all the while."""
        self.kv_block_us += num_blocks * (at_us - self.blocks_since_us)
        self.blocks_since_us = at_us

    def compute(self, start: int, end: int, *, mark: int, prompt_length: int) -> None:
        """Books a planned chunk: below `mark` it was computed before."""
        again = max(0, min(end, mark) - start)
        self.recomputed_tokens += again
        self.computed_prompt_tokens += max(0, min(end, prompt_length) - start - again)

    def close(self, completion_tokens: int) -> Bill:
        return Bill(
            computed_prompt_tokens=self.computed_prompt_tokens,
            cached_tokens=self.cached_tokens,
            recomputed_tokens=self.recomputed_tokens,
            completion_tokens=completion_tokens,
            steps=self.steps,
            kv_block_us=self.kv_block_us,
            executor_us=self.executor_ns // 1000,
        )


@dataclass(slots=True)
class Overhead:
    """Executor time that no bill holds, in nanoseconds by cause. Bills and overhead together are its busy time."""

    ns: dict[str, int] = field(default_factory=lambda: {"ended": 0, "unbilled": 0, "rounding": 0})

    def add(self, cause: str, ns: int) -> None:
        """Adds to a cause.

        `ended`: computed for a sequence that had left its slot; `unbilled`: for one that ended with an error, or whose
        router is gone; `rounding`: what a division left.
        """
        self.ns[cause] += ns
