import pytest

from services.scheduler.core.sequence import State
from services.wire.chain import block_hashes
from services.wire.execution import Sampling
from services.wire.message import int32_column
from tests.unit.scheduler.core.helpers import ROOT, sequence


@pytest.mark.parametrize(
    ("start", "end"), [(State.WAITING, State.WAITING), (State.ENDED, State.RUNNING), (State.ENDED, State.ENDED)]
)
def test_an_illegal_move_raises_and_changes_nothing(start: State, end: State):
    """Legal moves are a table."""
    made = sequence()
    made.state = start
    with pytest.raises(AssertionError):
        made.move(end)
    assert made.state is start


def test_the_token_that_reaches_the_limit_is_never_computed():
    """The goal is one less than the limit, or the whole prompt where no token is drawn."""
    assert sequence(prompt=20, max_tokens=8).goal == 27
    assert sequence(prompt=20, max_tokens=1).goal == 20
    assert sequence(prompt=20, max_tokens=0, sampling=Sampling(prompt_logprobs=0)).goal == 20


def test_the_routers_hashes_are_used_and_extended():
    """Over tokens that became known later the scheduler extends the chain itself."""
    sent = list(block_hashes(ROOT, int32_column([3] * 32), 16))
    made = sequence(prompt=[3] * 32, block_hashes=b"".join(sent))
    made.stored += int32_column([3] * 16).tobytes()
    assert made.chain(3, 16) == list(block_hashes(ROOT, int32_column([3] * 48), 16))


def test_hashes_of_another_number_are_not_used():
    """A router that does not know the block size may send none."""
    made = sequence(prompt=[3] * 32, block_hashes=b"")
    assert made.chain(2, 16) == list(block_hashes(ROOT, int32_column([3] * 32), 16))


def test_a_resumed_sequence_has_proved_all_but_its_last_token():
    """Another executor has computed them, and the prompt's logprobs have been sent."""
    made = sequence(prompt=20, accepted=[1, 2, 3], max_tokens=9, sampling=Sampling(prompt_logprobs=1))
    assert made.mark == 22
    assert not made.needs_prompt_rows


def test_two_strikes_are_a_quarantine():
    """They come with the submit."""
    assert not sequence(attempt=1).is_quarantined
    assert sequence(attempt=2).is_quarantined
