"""Fairness between tenants: a virtual token counter for each.

After Sheng et al., Fairness in Serving Large Language Models (VTC, OSDI 2024). The tenant with the least service is
next, and whoever comes back from a pause is lifted to the others, so that nobody saves up. Between two tenants that
both wait all the while the service differs by at most 2 * max(the price of the longest prompt, the price of all tokens
that the slots and the pool hold), each in shares of its tenant's weight; by twice that where requests that do not fit
are passed. The weight of a latency class counts likewise. Spare work, and a tenant at its quota, has no such claim.
"""

from collections.abc import Iterable
from typing import ClassVar

from services.scheduler.core.policies.fcfs import FirstCome
from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence

PROMPT_PRICE = 1
"""Of a prompt's token that has to be computed."""
OUTPUT_PRICE = 2
"""Of a token that is drawn: it takes a whole step of a slot."""
_SHARE = 1_000_000
_MOST_STALE = 1024


class Fair(FirstCome):
    """Counters in millionths of a token at weight 1. A tenant's own requests go in the order of their arrival."""

    in_one_order: ClassVar[bool] = False

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}
        self._newest = ""
        """The tenant that was admitted last."""
        self._running: Running | None = None

    def service(self, tenant: str) -> int:
        return self._counters.get(tenant, 0)

    def turn(self, sequence: Sequence, rank: int) -> int:
        del rank
        return self.service(sequence.submit.tenant)

    def price(self, sequence: Sequence) -> int:
        return _price(sequence, PROMPT_PRICE * sequence.num_stored)

    def may_pass(self, sequence: Sequence, blocked: Sequence) -> bool:
        """Until its tenant is ahead of the other by what the blocked one costs at most."""
        lead = self.service(sequence.submit.tenant) - self.service(blocked.submit.tenant)
        return lead <= _price(blocked, OUTPUT_PRICE * blocked.goal)

    def join(self, sequence: Sequence, head: Sequence | None, waiting: Iterable[str]) -> None:
        floor_tenant = head.submit.tenant if head else self._newest
        self._forget(self.service(floor_tenant), waiting)
        if self._running:
            self.settle(self._running)
        tenant = sequence.submit.tenant
        self._counters[tenant] = max(self.service(tenant), self.service(floor_tenant))

    def admit(self, sequence: Sequence, num_computed: int) -> None:
        self._newest = sequence.submit.tenant
        self._charge(sequence, PROMPT_PRICE * num_computed)

    def release(self, sequence: Sequence) -> None:
        self._charge_drawn(sequence, sequence.num_stored)

    def settle(self, running: Running) -> None:
        self._running = running
        known = running.columns.known.tolist()
        for sequence in running:
            self._charge_drawn(sequence, known[sequence.slot])

    def _charge_drawn(self, sequence: Sequence, num_known: int) -> None:
        if num_known > sequence.num_charged:
            self._charge(sequence, OUTPUT_PRICE * (num_known - sequence.num_charged))
            sequence.num_charged = num_known

    def _charge(self, sequence: Sequence, tokens: int) -> None:
        tenant = sequence.submit.tenant
        self._counters[tenant] = self.service(tenant) + _price(sequence, tokens)

    def _forget(self, floor: int, waiting: Iterable[str]) -> None:
        """Those that would be lifted to `floor` anyway. Not who waits, or will be charged for what it runs."""
        if len(self._counters) > _MOST_STALE:
            live = {*waiting, *(sequence.submit.tenant for sequence in self._running or ())}
            self._counters = {
                tenant: count for tenant, count in self._counters.items() if count >= floor or tenant in live
            }


def _price(sequence: Sequence, tokens: int) -> int:
    weight = sequence.submit.tenant_weight * sequence.latency_class.weight
    return round(tokens * _SHARE / max(weight, 1e-3))
