"""Token timing: when the tokens of one answer reached the router, as the client's timings."""

from headway.v1 import inference_pb2 as api


class TokenTiming:
    """Times in seconds of `time.perf_counter`; tokens that were resumed are not counted."""

    def __init__(self, arrived_at: float) -> None:
        self._arrived_at = arrived_at
        self._first_at = self._last_at = 0.0
        self._num_tokens = 0
        self._longest_gap_s = 0.0

    def tokens(self, count: int, now: float) -> None:
        """`count` tokens arrived together."""
        if self._num_tokens == 0:
            self._first_at = now
        else:
            self._longest_gap_s = max(self._longest_gap_s, now - self._last_at)
        self._last_at = now
        self._num_tokens += count

    def to_proto(self, now: float, queued_s: float = 0.0, prefill_s: float = 0.0) -> api.Timings:
        num_gaps = self._num_tokens - 1
        return api.Timings(
            queued_s=queued_s,
            prefill_s=prefill_s,
            time_to_first_token_s=self._first_at - self._arrived_at if self._num_tokens else 0.0,
            time_between_tokens_mean_s=(self._last_at - self._first_at) / num_gaps if num_gaps > 0 else 0.0,
            time_between_tokens_max_s=self._longest_gap_s,
            total_s=now - self._arrived_at,
        )
