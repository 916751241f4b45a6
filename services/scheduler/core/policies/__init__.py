"""Policies: who of those that wait is next, and who of those that run gives way."""

from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.policies.policy import Policy
from services.scheduler.core.settings import CoreSettings


def policy_of(settings: CoreSettings) -> Policy:
    """What `settings.policy` names."""
    return {"fcfs": FirstCome}[settings.policy]()
