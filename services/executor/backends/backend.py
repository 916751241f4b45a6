"""What the engine asks of a back end: the forward pass over a ragged batch, logits, and draws of tokens."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from services.executor.sampling import Draw
from services.executor.work import Work

Rows = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


class Backend(Protocol):
    """Owns weights and KV cache. Free blocks hold anything; results depend on each sequence alone."""

    num_blocks: int
    num_positions: int
    """A token's position lies below it: there is nothing to rotate by for others."""
    bytes_per_token: int
    """Of keys and values, over all layers."""

    def settle(self) -> None:
        """All is loaded and tried: what need not wait for requests is done in the background."""

    def forward(self, work: Sequence[Work], wanted: Ints) -> Rows:
        """Computes a step: stores keys and values of all its tokens, returns hidden states of some.

        Args:
            work: the tokens; row i of the step is the i-th of them, counted through all items.
            wanted: rows whose hidden state is asked for, rising.

        Returns:
            [wanted, hidden], after the last norm.
        """

    def logits(self, hidden: Rows) -> Rows:
        """[rows, vocabulary] of [rows, hidden]; the memory is reused by the next call."""

    def best(self, logits: Rows, rows: Ints) -> Ints:
        """Of some rows of `logits`, the id of the largest, of equals the smallest; -1 where one is not finite."""

    def draw(self, logits: Rows, rows: Ints, draws: Sequence[Draw], *, are_masked: bool = False) -> Ints:
        """Of each draw, the token that `sampling.draw` gives; within 1e-12 of a border, either of its two tokens.

        A token depends on its row and its draw alone, bit for bit.

        Args:
            logits: [any, vocabulary].
            rows: [draws]: which row of `logits` each draws from.
            draws: of `rows`.
            are_masked: the rows hold no NaN, and -inf where no token may be drawn, as `sampling.adjusted` makes them.

        Returns:
            [draws]; -1 where a logit of the row is not finite, of masked ones where the largest is not.
        """
