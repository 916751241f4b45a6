"""Positions: which ones a decoder tells apart, and so how long a context it can be served with."""

from dataclasses import dataclass

from services.executor.models.rope_scaling import RopeScaling

MAX_CONTEXT_LENGTH = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """What a file says of rotary embedding and of the lengths that the model was trained for; lengths in tokens."""

    trained_length: int
    theta: float
    scaling: RopeScaling | None
    window: int | None  # None: every token sees all before it

    @property
    def context_length(self) -> int:
        """What may be served: what was trained, stretched by YaRN, and no more than the window."""
        length = self.trained_length
        if self.scaling is not None and self.scaling.kind == "yarn":
            length = max(length, int(self.scaling.factor * self.scaling.original_context_length))
        return min(length if self.window is None else min(length, self.window), MAX_CONTEXT_LENGTH)
