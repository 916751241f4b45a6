"""The core's settings: what an operator may choose about scheduling."""

from dataclasses import dataclass
from typing import Literal, get_args

from services.scheduler.core.latency_class import MOST_US, PRESETS, read_classes

BatchingMode = Literal["continuous", "static"]
PolicyName = Literal["fcfs", "priority", "fair", "deadline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """How much may run and wait at once. Written into the header of every event log, so that a replay has the same."""

    max_slots: int = 64
    token_budget: int = 512
    """Tokens that one step computes at most, decodes and prefill chunks together."""
    max_waiting_requests: int = 1024
    max_waiting_tokens: int = 1_000_000
    default_max_tokens: int = 512
    """Of a request that sets none; clipped to what is left of the context and of the pool."""
    max_tokens_cap: int = 32_768
    executor_grace_us: int = 60_000_000
    """How long a request waits for an absent executor."""
    pipeline_depth: int = 2
    """Plans that may be unanswered at once."""
    tbt_target_us: int = 0
    """The longest that a step beside decodes is to take; prompts get what it leaves. 0: the whole token budget."""
    pass_blocked_us: int = 1_000_000
    """How long others that fit may pass one that is next and does not."""
    latency_classes: str = PRESETS
    """See latency_class."""
    default_latency_class: str = ""
    """Of requests that name none; empty: one without targets."""
    prefix_cache: bool = True
    policy: PolicyName = "fcfs"
    """Who is next of those that wait, and who gives way when blocks run out."""
    priority_ageing_us: int = 1_000_000
    """How long a wait a level of priority is worth."""
    batching: BatchingMode = "continuous"
    """static: whole batches, released together; the baseline that continuous batching is measured against."""

    def __post_init__(self) -> None:
        for name in (
            "max_slots",
            "token_budget",
            "max_waiting_requests",
            "max_waiting_tokens",
            "default_max_tokens",
            "max_tokens_cap",
            "pipeline_depth",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name, words in (("policy", get_args(PolicyName)), ("batching", get_args(BatchingMode))):
            if getattr(self, name) not in words:
                raise ValueError(f"{name} must be one of {', '.join(words)}, not {getattr(self, name)!r}")
        read_classes(self.latency_classes, self.default_latency_class)
        if self.tbt_target_us > MOST_US:
            raise ValueError(f"tbt_target_us must be at most {MOST_US}, not {self.tbt_target_us}")
        if self.pipeline_depth > 2:
            raise ValueError(f"pipeline_depth must be 1 or 2, not {self.pipeline_depth}")
        for name in ("executor_grace_us", "tbt_target_us", "priority_ageing_us", "pass_blocked_us"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, is {getattr(self, name)}")
