"""Tenant quotas: live requests and KV blocks. Each Submit brings its tenant's; the core keeps the counts."""

from collections import Counter

from services.scheduler.core.sequence import Sequence
from services.wire.scheduling import Submit


class Quotas:
    """A running sequence is charged the blocks that it holds at its limit, so that growth never passes a quota."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._blocks: Counter[str] = Counter()

    def can_enter(self, submit: Submit) -> bool:
        """Whether its tenant may have one more live sequence."""
        return not submit.tenant_max_requests or self._requests[submit.tenant] < submit.tenant_max_requests

    def enter(self, sequence: Sequence) -> None:
        self._requests[sequence.submit.tenant] += 1

    def leave(self, sequence: Sequence) -> None:
        _subtract(self._requests, sequence.submit.tenant, 1)

    def can_charge(self, sequence: Sequence, num_blocks: int) -> bool:
        """Whether its tenant may hold `num_blocks` more."""
        quota, tenant = sequence.submit.tenant_max_blocks, sequence.submit.tenant
        return not quota or self._blocks[tenant] + num_blocks <= quota

    def charge(self, sequence: Sequence, num_blocks: int) -> None:
        self._blocks[sequence.submit.tenant] += num_blocks

    def discharge(self, sequence: Sequence, num_blocks: int) -> None:
        _subtract(self._blocks, sequence.submit.tenant, num_blocks)

    def check_integrity(self, live: Counter[str], charged: Counter[str]) -> None:
        assert self._requests == live, "live requests of a tenant are miscounted"
        assert self._blocks == charged, "blocks of a tenant are miscounted"


def _subtract(counter: Counter[str], tenant: str, amount: int) -> None:
    counter[tenant] -= amount
    if not counter[tenant]:
        del counter[tenant]  # a tenant that is gone costs no memory
