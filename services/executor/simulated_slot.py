"""A slot of the simulated executor: one sequence, with a digest in the place of each key and value."""

import numpy as np

from services.executor.simulated_script import Answer, LogprobTable, ScriptName, answer_of, mix
from services.wire.execution import AdmittedSlot


class BrokenPlan(Exception):
    """A plan that breaks the protocol: a bug of the scheduler's."""


class SimulatedSlot:
    """What is known of the sequence, how much of it is computed, and in which blocks."""

    __slots__ = (
        "admitted",
        "answer",
        "blocks",
        "computed",
        "decoding",
        "digests",
        "ended",
        "known",
        "last_token",
        "num_blocks",
    )

    def __init__(self, admitted: AdmittedSlot, script: ScriptName, block_size: int) -> None:
        prompt = admitted.token_ids[: admitted.prompt_length].tolist()
        self.admitted = admitted
        self.answer: Answer = answer_of(script, prompt, admitted.seed)
        self.known = 0
        self.computed = admitted.computed_length
        self.decoding = False
        self.ended = False
        self.digests = np.zeros(admitted.token_limit + 1, np.uint64)  # [p + 1]: of the tokens up to position p
        self.blocks = np.zeros(max(-(-admitted.token_limit // block_size), len(admitted.blocks)), np.int64)
        self.num_blocks = 0
        self.last_token = -1
        for token in admitted.token_ids.tolist():
            self.learn(token)

    def learn(self, token: int) -> None:
        """One more token is known."""
        self.digests[self.known + 1] = mix(int(self.digests[self.known]), token + 1)
        self.known += 1
        self.last_token = token

    def append(self, block: int) -> None:
        if self.num_blocks == len(self.blocks):
            raise BrokenPlan(f"slot {self.admitted.slot} gets more blocks than its token limit needs")
        self.blocks[self.num_blocks] = block
        self.num_blocks += 1

    def add_prompt_logprobs(self, table: LogprobTable, count: int) -> None:
        """Rows for the prompt tokens that the newest `count` computed tokens predict."""
        admitted = self.admitted
        num_tops = admitted.sampling.prompt_logprobs
        if num_tops < 0:
            return
        first = self.computed - count + 1
        for position in range(first, min(self.computed + 1, admitted.prompt_length)):
            table.add_prompt(admitted.slot, position, int(admitted.token_ids[position]), num_tops)
