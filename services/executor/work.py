"""Work: what one step computes of one sequence."""

from dataclasses import dataclass

from services.executor.slots import Slot


@dataclass(frozen=True, slots=True)
class Work:
    """`count` tokens of one sequence to compute in this step, the first at position `start`."""

    slot: Slot
    start: int
    count: int

    @property
    def end(self) -> int:
        """The position after the last one computed."""
        return self.start + self.count
