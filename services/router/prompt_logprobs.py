"""Prompt logprobs: gathered chunk by chunk while the prompt is computed, told with the first token."""

from collections.abc import Iterator, Sequence

from headway.v1 import inference_pb2 as api

from services.router.logprob_rows import LogprobRow, token_logprobs
from services.wire.message import Int32Column


class PromptLogprobs:
    """Those of one answer; `wanted` until they have been told."""

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self._rows: dict[int, LogprobRow] = {}

    def add(self, rows: Sequence[LogprobRow]) -> None:
        """Rows by position; a scheduler that begins again sends them again."""
        if self.wanted:
            self._rows.update((row.position, row) for row in rows)

    def take(self, token_ids: Int32Column) -> Iterator[api.TokenLogprobs]:
        """One for each token of the prompt, the first time; nothing after it, or where they are not wanted."""
        if not self.wanted:
            return
        self.wanted = False
        rows, self._rows = self._rows, {}
        for position, token_id in enumerate(token_ids.tolist()):
            yield token_logprobs(token_id, rows.get(position))
