"""Policies: who of those that wait is next, and who of those that run gives way."""

from collections.abc import Callable

from services.scheduler.core.policies.deadline import LeastSlack
from services.scheduler.core.policies.fair import Fair
from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.policies.policy import Policy
from services.scheduler.core.policies.priority import Priority
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.settings import CoreSettings


def policy_of(settings: CoreSettings, first_token_us: Callable[[Sequence], int]) -> Policy:
    """What `settings.policy` names. `first_token_us`: how long a newcomer takes to its first token, alone."""
    match settings.policy:
        case "fcfs":
            return FirstCome()
        case "priority":
            return Priority(settings.priority_ageing_us)
        case "fair":
            return Fair()
        case "deadline":
            return LeastSlack(first_token_us)
