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

    def add_token(self, token_id: int, logprobs: api.TokenLogprobs | None) -> None:
        self._token_ids.append(token_id)
        if logprobs is not None:
            self._logprobs.append(logprobs)

    def add_text(self, text: str) -> None:
        if text:
            self._text.append(text)

    def add_prompt_logprobs(self, logprobs: Iterable[api.TokenLogprobs]) -> None:
        self._prompt_logprobs.extend(logprobs)

    def take(self) -> api.Delta:
        """All of it, as one message; nothing is pending after."""
        delta = api.Delta(
            index=self._index,
            text="".join(self._text),
            token_ids=self._token_ids,
            logprobs=self._logprobs,
            prompt_logprobs=self._prompt_logprobs,
        )
        for column in (self._text, self._token_ids, self._logprobs, self._prompt_logprobs):
            column.clear()
        return delta
