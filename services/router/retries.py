"""Retries: how often one answer was lost or turned away without growing, and whether it is sent again."""

from services.wire.scheduling import Rejected, RejectReason

_MAX_LOSSES = 2
_MAX_MOVES = 4  # from a scheduler that turned the answer away
_MAX_DUPLICATES = 20

_ELSEWHERE = {RejectReason.EXECUTOR_UNAVAILABLE, RejectReason.DRAINING}


class Retries:
    """Counts for one answer; each `may_` counts one time more. An answer that grows has all its tries again."""

    def __init__(self, *, resumed: bool) -> None:
        """`resumed`: the client goes on with an answer that an earlier call of its began."""
        self.attempt = 0  # losses for which it was suspected, as schedulers said; the next one has to know
        self.resubmitted = False  # a scheduler has had it before
        self._resumed = resumed
        self._num_losses = 0
        self._num_moves = 0
        self._num_duplicates = 0

    def grew(self) -> None:
        self._num_losses = self._num_moves = self._num_duplicates = 0

    def may_after_loss(self) -> bool:
        """Whether it is sent again after its scheduler was lost."""
        self._num_losses += 1
        self.resubmitted = True
        return self._num_losses <= _MAX_LOSSES

    def rejected(self, rejected: Rejected, *, had_tokens: bool) -> None:
        """A scheduler has turned it away."""
        self.attempt = max(self.attempt, rejected.attempt)
        self.resubmitted = self.resubmitted or had_tokens

    def may_move(self, reason: RejectReason) -> bool:
        """Whether another scheduler is asked at once."""
        if reason not in _ELSEWHERE or self._num_moves >= _MAX_MOVES:
            return False
        self._num_moves += 1
        return True

    def may_wait_for_id(self, reason: RejectReason) -> bool:
        """Whether its id is waited for: a scheduler that holds it for a stream which broke will notice the break."""
        may_hold_it = self.resubmitted or self._resumed
        if reason != RejectReason.DUPLICATE_ID or not may_hold_it or self._num_duplicates >= _MAX_DUPLICATES:
            return False
        self._num_duplicates += 1
        return True
