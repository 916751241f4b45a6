"""A draft: a plan in the making."""

from dataclasses import dataclass, field

from services.scheduler.core.columns import Slots
from services.scheduler.core.flight import Chunk
from services.scheduler.core.sequence import Sequence
from services.wire.execution import AdmittedSlot, StepPlan
from services.wire.message import int32_column, no_ints


@dataclass(slots=True)
class Draft:
    """Changes gathered by the planner; sealed into a StepPlan."""

    at_us: int
    budget: int
    tbt_target_us: int = 0
    """What the budget was chosen by; 0: nothing was promised, or no prompt could be computed."""
    decode_context: int = 0
    num_decodes: int = 0
    num_prefill_tokens: int = 0
    num_preempted: int = 0
    num_held: int = 0
    """Slots in use or kept empty, see Batching."""
    prefix_hit_tokens: int = 0
    prefix_query_tokens: int = 0
    admitted: list[AdmittedSlot] = field(default_factory=list)
    newcomers: list[Sequence] = field(default_factory=list)
    """Of the admitted, those that had never been."""
    append_slots: list[int] = field(default_factory=list)
    append_blocks: list[int] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    drawing: list[int] = field(default_factory=list)
    """Slots of chunks that reach the last known token."""

    @property
    def num_tokens(self) -> int:
        return self.num_decodes + self.num_prefill_tokens

    @property
    def num_context_tokens(self) -> int:
        """Tokens that are read: each sequence's length once the step has run."""
        return self.decode_context + (sum(chunk.end for chunk in self.chunks) if self.chunks else 0)

    @property
    def left(self) -> int:
        """What is left of the budget."""
        return self.budget - self.num_tokens

    def seal(self, plan: int, *, released: list[int], started: Slots, paused: Slots, time_limit_ms: int) -> StepPlan:
        return StepPlan(
            plan=plan,
            released=int32_column(released) if released else no_ints(),
            paused=int32_column(paused) if paused.size else no_ints(),
            admitted=tuple(self.admitted),
            append_slots=int32_column(self.append_slots) if self.append_slots else no_ints(),
            append_blocks=int32_column(self.append_blocks) if self.append_blocks else no_ints(),
            started=int32_column(started) if started.size else no_ints(),
            chunk_slots=int32_column([chunk.slot for chunk in self.chunks]) if self.chunks else no_ints(),
            chunk_counts=int32_column([chunk.end - chunk.start for chunk in self.chunks]) if self.chunks else no_ints(),
            time_limit_ms=time_limit_ms,
        )
