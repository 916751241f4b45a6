"""A pending delta: what an answer grew by since its client last took something."""

from collections.abc import Iterable

from headway.v1 import inference_pb2 as api


class PendingDelta:
    """Grows until the writer takes all of it; bounded by the answer's own length, whatever the reader does."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._text: list[str] = []
        self._token_ids: list[int] = []
        self._logprobs: list[api.TokenLogprobs] = []
        self._prompt_logprobs: list[api.TokenLogprobs] = []

    def __bool__(self) -> bool:
        return bool(self._token_ids or self._text or self._prompt_logprobs)

    def add_tokens(self, token_ids: Iterable[int], logprobs: Iterable[api.TokenLogprobs] = ()) -> None:
        self._token_ids.extend(token_ids)
        self._logprobs.extend(logprobs)

    def add_text(self, text: str) -> None:
        if text:
            self._text.append(text)

    def add_prompt_logprobs(self, logprobs: Iterable[api.TokenLogprobs]) -> None:
        self._prompt_logprobs.extend(logprobs)

    def take(self) -> api.Delta:
        """All of it, as one message; nothing is pending after."""
        delta = api.Delta()
        self.move_to(delta)
        return delta

    def move_to(self, delta: api.Delta) -> None:
        """The same into an empty message; without logprobs, as most are, their lists are not touched."""
        delta.index = self._index
        delta.text = "".join(self._text)
        delta.token_ids.extend(self._token_ids)
        self._text.clear()
        self._token_ids.clear()
        if self._logprobs or self._prompt_logprobs:
            delta.logprobs.extend(self._logprobs)
            delta.prompt_logprobs.extend(self._prompt_logprobs)
            self._logprobs.clear()
            self._prompt_logprobs.clear()
