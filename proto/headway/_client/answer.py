"""Answers as a caller gets them: growing, or whole."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.v1 import inference_pb2 as v1


@dataclass(frozen=True, slots=True)
class Delta:
    """What an answer grew by. `finished` is there in the last delta of an answer."""

    text: str
    token_ids: tuple[int, ...] = ()
    index: int = 0  # which of the n answers
    logprobs: tuple[v1.TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[v1.TokenLogprobs, ...] = ()
    finished: v1.Finished | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole reply; `text`, `token_ids` and `finished` are those of its first answer."""

    response: v1.CompleteResponse

    @property
    def answers(self) -> Sequence[v1.Answer]:
        return self.response.answers

    @property
    def text(self) -> str:
        return self.answers[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(self.answers[0].token_ids)

    @property
    def finished(self) -> v1.Finished:
        return self.answers[0].finished
