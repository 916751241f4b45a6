"""Answers: what the core said of each submit, gathered as a router would."""

from dataclasses import dataclass, field

import numpy as np

from services.wire.scheduling import Finished, Rejected, StepTokens, Submit, ToRouter


@dataclass(eq=False, slots=True)
class Answer:
    """What came back for one submit."""

    submit: Submit
    router: int
    submitted_us: int = -1
    token_ids: list[int] = field(default_factory=list)
    """Without those that the submit brought."""
    token_times_us: list[int] = field(default_factory=list)
    token_steps: list[int] = field(default_factory=list)
    batches: list[StepTokens] = field(default_factory=list)
    """The messages that had logprobs, of all sequences of the router."""
    finished: Finished | None = None
    rejected: Rejected | None = None
    ended_us: int = -1

    @property
    def has_ended(self) -> bool:
        return self.finished is not None or self.rejected is not None

    @property
    def max_gap_us(self) -> int:
        """The longest time between two tokens."""
        return max((b - a for a, b in zip(self.token_times_us, self.token_times_us[1:], strict=False)), default=0)


class Answers(dict[tuple[int, int], Answer]):
    """By router and handle; all that is to be answered is put here first."""

    def take(self, outputs: list[tuple[int, ToRouter]], now_us: int) -> None:
        """What was said now."""
        for router, message in outputs:
            body = message.body
            if isinstance(body, StepTokens):
                self._take_tokens(router, body, now_us)
            elif isinstance(body, Finished | Rejected):
                self._take_end(self[router, body.handle], body, now_us)

    def _take_tokens(self, router: int, body: StepTokens, now_us: int) -> None:
        ends = np.cumsum(body.counts).tolist()
        for handle, count, end in zip(body.handles.tolist(), body.counts.tolist(), ends, strict=True):
            answer = self[router, handle]
            assert not answer.has_ended, "a token after the last word"
            answer.token_ids += body.tokens[end - count : end].tolist()
            answer.token_times_us += [now_us] * count
            answer.token_steps += [body.step] * count
        for rows in (body.logprobs, body.prompt_logprobs):
            for handle in set(rows.slots.tolist()) if rows else ():
                batches = self[router, handle].batches
                if not batches or batches[-1] is not body:
                    batches.append(body)

    def _take_end(self, answer: Answer, body: Finished | Rejected, now_us: int) -> None:
        assert not answer.has_ended, "a request ended twice"
        answer.ended_us = now_us
        if isinstance(body, Finished):
            answer.finished = body
        else:
            answer.rejected = body
