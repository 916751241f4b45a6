"""A loss: an executor is gone, and some sequence may have been the cause."""

from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Loss:
    at_us: int
    num_suspects: int
    """Suspects that have not grown since."""
    may_be_explained: bool = False
    """A suspect has ended without growing."""

    @property
    def is_unexplained(self) -> bool:
        """Whether none of the suspects was the cause."""
        return not (self.num_suspects or self.may_be_explained)
