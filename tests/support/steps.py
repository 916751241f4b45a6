"""A few lines of scheduling for tests of the engine alone: no prefix cache, no preemption unless a test asks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from services.executor.blocks import BLOCK_SIZE
from services.executor.engine import Engine
from services.executor.slots import Slot
from services.executor.work import Work
from services.wire.execution import GREEDY, AdmittedSlot, Reset, Sampling, StepPlan, StepResult
from services.wire.message import int32_column


@dataclass
class Request:
    """One sequence to run; `known` tokens of output are given with the prompt."""

    prompt: Sequence[int]
    max_tokens: int
    sampling: Sampling = field(default_factory=lambda: GREEDY)
    seed: int = 0
    known: Sequence[int] = ()
    outputs: list[int] = field(default_factory=list)


class Stepper:
    """Numbers plans, and hands them to an engine in a fresh session."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.plan = 0
        engine.reset(1, Reset(max_slots=engine._most.max_slots, max_step_tokens=engine._most.max_step_tokens))

    def step(self, *admitted: AdmittedSlot, **columns) -> StepResult:
        """One step; columns are plain sequences of integers."""
        self.plan += 1
        return self.engine.step(
            StepPlan(plan=self.plan, admitted=admitted, **{name: int32_column(v) for name, v in columns.items()})
        )


def admitted(slot: int, request: Request, first_block: int, **changes) -> AdmittedSlot:
    """The admission of `request` with all the blocks that it can ever need, from `first_block` on."""
    tokens = [*request.prompt, *request.known]
    limit = len(request.prompt) + request.max_tokens
    fields = {
        "slot": slot,
        "token_ids": int32_column(tokens),
        "prompt_length": len(request.prompt),
        "token_limit": limit,
        "blocks": int32_column(range(first_block, first_block + -(-limit // BLOCK_SIZE))),
        "seed": request.seed,
        "sampling": request.sampling,
    }
    return AdmittedSlot(**(fields | changes))


def run(engine: Engine, requests: Sequence[Request], *, chunk: int = 512) -> list[StepResult]:
    """Runs requests together, prompts in chunks of at most `chunk`; fills their `outputs`."""
    stepper = Stepper(engine)
    blocks = np.cumsum([0] + [-(-(len(r.prompt) + r.max_tokens) // BLOCK_SIZE) for r in requests])
    slots = [admitted(index, request, int(blocks[index])) for index, request in enumerate(requests)]
    left = {index: len(request.prompt) + len(request.known) for index, request in enumerate(requests)}
    results, started = [], []
    while left or results[-1].tokens.size:
        chunks = {index: min(chunk, count) for index, count in left.items()}
        first = () if results else slots
        result = stepper.step(*first, started=started, chunk_slots=[*chunks], chunk_counts=[*chunks.values()])
        started = [index for index, count in left.items() if count == chunks[index]]
        left = {index: count - chunks[index] for index, count in left.items() if count > chunks[index]}
        for index, token in zip(result.slots.tolist(), result.tokens.tolist(), strict=True):
            requests[index].outputs.append(token)
        results.append(result)
    return results


def work_of(tokens, blocks):
    """All tokens of a sequence of its own, to be computed into `blocks`."""
    tokens = list(tokens)
    request = AdmittedSlot(
        slot=0,
        token_ids=int32_column(tokens),
        prompt_length=len(tokens),
        token_limit=len(tokens),
        blocks=int32_column(blocks),
        sampling=GREEDY,
    )
    slot = Slot(request, ())
    for block in blocks:
        slot.append_block(block)
    return Work(slot, 0, len(tokens))
