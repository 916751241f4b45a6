"""A flight: one plan that the executor has not answered, with what it computes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.scheduler.core.columns import Slots
from services.scheduler.core.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens `start` to `end` of a sequence; `order` tells whether it still has the slot it had."""

    sequence: Sequence
    order: int
    slot: int
    start: int
    end: int

    @property
    def is_current(self) -> bool:
        return self.sequence.is_running and self.sequence.order == self.order


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """Results are read against this, not against the present: sequences may have left since."""

    plan: int
    step: int
    sent_us: int
    num_left: int
    """Sequences that had ever left a slot: while it is the same now, nobody of this plan has."""
    num_tokens: int
    decodes: Slots
    draws: Slots
    """Slots that draw a token: the decodes, then the chunks that reach the last known token."""
    generations: npt.NDArray[np.int32]
    """Of the draws."""
    chunks: tuple[Chunk, ...]
    num_context_tokens: int = 0
    predicted_us: int = 0
