"""Work: what one step computes of one sequence."""

from dataclasses import dataclass

from services.executor.slots import Slot


@dataclass(slots=True)
class Work:
    """`count` tokens of one sequence to compute in this step, the first at position `start`.

    Nobody changes it. It is not frozen because that triples what making it costs, for each sequence in each step.
    """

    slot: Slot
    start: int
    count: int

    @property
    def end(self) -> int:
        """The position after the last one computed."""
        return self.start + self.count

    @property
    def draws(self) -> bool:
        """Whether the next token of the sequence is drawn from what is computed."""
        slot = self.slot
        return self.start + self.count == slot.length and slot.may_draw
