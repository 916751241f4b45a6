"""Computations: who hears what the scheduler says. Over real streams: test_router_streams, test_router_faults."""

from services.router.computations import Computations, tell_lost
from services.wire.execution import LogprobRows
from services.wire.message import float32_column, int32_column
from services.wire.scheduling import Bill, FinishCause, Finished, Rejected, RejectReason, StepTokens


class Told:
    """Remembers what it is told; what is in `broken` it cannot bear."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.heard: list[tuple[str, object]] = []
        self.refusal = None

    def fail(self, refusal) -> None:
        self.refusal = refusal

    def lost(self) -> None:
        self._hear("lost", None)

    def take_tokens(self, token_ids, rows) -> None:
        self._hear("tokens", (token_ids, [row.position for row in rows]))

    def take_prompt_rows(self, rows) -> None:
        self._hear("prompt rows", [row.position for row in rows])

    def take_finished(self, finished) -> None:
        self._hear("finished", finished)

    def take_rejected(self, rejected) -> None:
        self._hear("rejected", rejected)

    def _hear(self, what, body) -> None:
        if what in self.broken:
            raise RuntimeError(what)
        self.heard.append((what, body))


def _begun(computations, *sequences):
    return [computations.begin(sequence, lambda *_: None) for sequence in sequences]


def _tokens(handles, counts, tokens, **rows):
    return StepTokens(
        step=1, handles=int32_column(handles), counts=int32_column(counts), tokens=int32_column(tokens), **rows
    )


def _row(handle, position):
    one = int32_column([1])
    return LogprobRows(
        slots=int32_column([handle]),
        positions=int32_column([position]),
        chosen=float32_column([-1.0]),
        ranks=one,
        top_counts=int32_column([0]),
    )


def test_each_hears_its_own_tokens_and_rows():
    """A step's columns are told apart by handle; a handle that is not here is passed over."""
    computations, first, second = Computations(), Told(), Told()
    one, two = _begun(computations, first, second)
    rows = {"logprobs": _row(two, 7), "prompt_logprobs": _row(one, 3)}
    computations.hear_tokens(_tokens([one, 99, two], [1, 1, 2], [5, 6, 7, 8], **rows))
    assert first.heard == [("prompt rows", [3]), ("tokens", ([5], []))]
    assert second.heard == [("tokens", ([7, 8], [7]))]


def test_a_last_word_is_the_last_that_is_heard():
    """Whoever has finished, was rejected or dropped hears nothing more."""
    computations, sequences = Computations(), [Told(), Told(), Told()]
    done, turned_away, dropped = _begun(computations, *sequences)
    finished = Finished(handle=done, cause=FinishCause.LENGTH, bill=Bill())
    rejected = Rejected(handle=turned_away, reason=RejectReason.QUEUE_FULL)
    for _ in range(2):
        computations.hear_finished(finished)
        computations.hear_rejected(rejected)
    assert computations.drop(dropped)
    assert not computations.drop(dropped)
    computations.hear_tokens(_tokens([done, turned_away, dropped], [1, 1, 1], [1, 2, 3]))
    assert [sequence.heard for sequence in sequences] == [[("finished", finished)], [("rejected", rejected)], []]
    assert len(computations) == 0


def test_one_that_cannot_be_told_fails_alone():
    """A fault in the handling of one sequence is that sequence's; the others hear their tokens."""
    computations, bad, good = Computations(), Told("tokens"), Told()
    computations.hear_tokens(_tokens(_begun(computations, bad, good), [1, 1], [5, 6]))
    assert bad.refusal is not None
    assert good.heard == [("tokens", ([6], []))]


def test_one_that_cannot_be_sent_is_failed_and_not_kept():
    """What cannot be submitted gets no handle."""

    def submit(_computed, _handle):
        raise OverflowError

    computations, sequence = Computations(), Told()
    assert computations.begin(sequence, submit) is None
    assert sequence.refusal is not None
    assert len(computations) == 0


def test_all_that_are_left_hear_of_the_loss():
    """With its scheduler gone, every sequence is taken, and told, even beside one that cannot be."""
    computations, bad, good = Computations(), Told("lost"), Told()
    _begun(computations, bad, good)
    orphans = computations.take_all()
    assert len(computations) == 0
    tell_lost(orphans)
    assert bad.refusal is not None
    assert good.heard == [("lost", None)]


def test_handles_are_never_shared():
    """Handles wrap around within int32 and skip those in use."""
    computations = Computations()
    _begun(computations, Told())
    computations._last_handle = 2**31 - 2
    assert _begun(computations, Told(), Told(), Told()) == [2**31 - 1, 2, 3]
