"""First come, first served."""

from services.scheduler.core.running import Running
from services.scheduler.core.sequence import Sequence


class FirstCome:
    """Everyone is equal, so the order is that of arrival, and the newest gives way. Other orders by moments build on it."""

    def rank(self, sequence: Sequence) -> int:
        del sequence
        return 0

    def turn(self, sequence: Sequence, rank: int) -> int:
        del sequence
        return rank

    def price(self, sequence: Sequence) -> int:
        del sequence
        return 0

    def hopeless_us(self, sequence: Sequence) -> int:
        del sequence
        return -1

    def join(self, sequence: Sequence, head: Sequence | None) -> None:
        pass

    def admit(self, sequence: Sequence, num_computed: int) -> None:
        pass

    def release(self, sequence: Sequence) -> None:
        pass

    def settle(self, running: Running) -> None:
        pass
