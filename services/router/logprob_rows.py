"""Logprob rows: the columns of a step, sorted out by sequence and made into what clients read."""

from typing import NamedTuple

from headway.v1 import inference_pb2 as api

from services.wire.execution import LogprobRows


class LogprobRow(NamedTuple):
    """The log-probability of one token and of the best ones in its place."""

    position: int
    logprob: float
    rank: int
    top_ids: list[int]
    top_logprobs: list[float]

    def to_proto(self, token_id: int) -> api.TokenLogprobs:
        top = [
            api.TopLogprob(token_id=top_id, logprob=logprob)
            for top_id, logprob in zip(self.top_ids, self.top_logprobs, strict=True)
        ]
        return api.TokenLogprobs(token_id=token_id, logprob=self.logprob, rank=self.rank, top=top)


def rows_by_handle(rows: LogprobRows | None) -> dict[int, list[LogprobRow]]:
    """The rows of each handle, in the order of the columns."""
    by_handle: dict[int, list[LogprobRow]] = {}
    if rows is None:
        return by_handle
    top_ids, top_logprobs = rows.top_ids.tolist(), rows.top_logprobs.tolist()
    ends = rows.top_counts.cumsum().tolist()
    columns = zip(
        rows.slots.tolist(), rows.positions.tolist(), rows.chosen.tolist(), rows.ranks.tolist(), ends, strict=True
    )
    start = 0
    for handle, position, logprob, rank, end in columns:
        row = LogprobRow(position, logprob, rank, top_ids[start:end], top_logprobs[start:end])
        by_handle.setdefault(handle, []).append(row)
        start = end
    return by_handle


def token_logprobs(token_id: int, row: LogprobRow | None) -> api.TokenLogprobs:
    """What clients read of one token; the token alone where its row is not known."""
    return row.to_proto(token_id) if row else api.TokenLogprobs(token_id=token_id)
