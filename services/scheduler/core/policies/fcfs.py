"""First come, first served."""

from collections.abc import Iterable
from typing import ClassVar

from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence


class FirstCome:
    """The order is that of the moments at which first tokens are due; where all are promised the same, that of arrival.

    Other policies build on it.
    """

    in_one_order: ClassVar[bool] = True

    def rank(self, sequence: Sequence) -> int:
        return sequence.arrived_us + sequence.latency_class.order_us

    def turn(self, sequence: Sequence, rank: int) -> int:
        del sequence
        return rank

    def price(self, sequence: Sequence) -> int:
        del sequence
        return 0

    def hopeless_us(self, sequence: Sequence) -> int:
        del sequence
        return -1

    def may_pass(self, sequence: Sequence, blocked: Sequence) -> bool:
        del sequence, blocked
        return True

    def join(self, sequence: Sequence, head: Sequence | None, waiting: Iterable[str]) -> None:
        pass

    def admit(self, sequence: Sequence, num_computed: int) -> None:
        pass

    def release(self, sequence: Sequence) -> None:
        pass

    def settle(self, running: Running) -> None:
        pass
