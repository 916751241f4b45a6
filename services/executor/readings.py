"""The readings of a step: whose hidden states are asked for, and what each is for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from services.executor.output import prompt_positions
from services.executor.slots import Slot
from services.executor.work import Work


@dataclass(frozen=True, slots=True)
class PromptReading:
    """The prompt positions of one slot whose logprobs are wanted, and where the hidden states before them begin."""

    slot: Slot
    positions: range
    first: int
    """Among those asked for."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Of each work item the hidden states before prompt positions, and the last one where the next token is drawn."""

    rows: list[int] = field(default_factory=list)
    """Of the step, rising: those asked for."""
    prompts: list[PromptReading] = field(default_factory=list)
    drawing: list[Slot] = field(default_factory=list)
    """Slots whose next token is drawn."""
    drawn_from: list[int] = field(default_factory=list)
    """Of each of them, which of those asked for."""

    @classmethod
    def of(cls, work: Sequence[Work]) -> Self:
        readings = cls()
        rows = readings.rows
        first_row = 0
        for item in work:
            if positions := prompt_positions(item):
                readings.prompts.append(PromptReading(item.slot, positions, len(rows)))
                rows += [first_row + position - 1 - item.start for position in positions]
            if item.draws:
                readings.drawing.append(item.slot)
                readings.drawn_from.append(len(rows))
                rows.append(first_row + item.count - 1)
            first_row += item.count
        return readings
