"""Logprobs: what the model itself, before any sampling parameter, thought of a token and of the best ones."""

import numpy as np
import numpy.typing as npt

from services.wire.execution import LogprobRows
from services.wire.message import float32_column, int32_column


class LogprobCollector:
    """Collects rows for one `LogprobRows` message."""

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._positions: list[int] = []
        self._chosen: list[float] = []
        self._ranks: list[int] = []
        self._top_counts: list[int] = []
        self._top_ids: list[npt.NDArray[np.intp]] = []
        self._top_logprobs: list[npt.NDArray[np.float64]] = []

    def add(self, slot: int, position: int, logits: npt.NDArray[np.float32], token: int, top_count: int) -> None:
        """Adds the row of `token`, which stands at `position`.

        Args:
            slot: whose token it is.
            position: the token's index in the whole sequence.
            logits: [vocabulary], the model's own, all finite.
            token: the id that stands there.
            top_count: how many of the best to list; equal ones by id.
        """
        logprobs = _log_softmax(logits)
        best = _best(logits, min(top_count, len(logits)))
        self._slots.append(slot)
        self._positions.append(position)
        self._chosen.append(float(logprobs[token]))
        self._ranks.append(_rank(logits, token))
        self._top_counts.append(len(best))
        self._top_ids.append(best)
        self._top_logprobs.append(logprobs[best])

    def rows(self) -> LogprobRows | None:
        """The message; None where nothing was added."""
        if not self._slots:
            return None
        return LogprobRows(
            slots=int32_column(self._slots),
            positions=int32_column(self._positions),
            chosen=float32_column(self._chosen),
            ranks=int32_column(self._ranks),
            top_counts=int32_column(self._top_counts),
            top_ids=int32_column(np.concatenate(self._top_ids)),
            top_logprobs=float32_column(np.concatenate(self._top_logprobs)),
        )


def _log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - float(logits.max())
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def _rank(logits: npt.NDArray[np.float32], token: int) -> int:
    """The token's place in the order by logit, then id; 1 is the best."""
    better = np.count_nonzero(logits > logits[token])
    return 1 + int(better) + int(np.count_nonzero(logits[:token] == logits[token]))


def _best(logits: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.intp]:
    if count == 0:
        return np.empty(0, np.intp)
    floor = np.partition(logits, -count)[-count]
    ids = np.flatnonzero(logits >= floor)
    return ids[np.argsort(-logits[ids], kind="stable")][:count]
