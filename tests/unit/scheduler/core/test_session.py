from services.scheduler.core.sequence import State
from tests.unit.scheduler.core.helpers import sequence, session


def test_an_occupied_slot_is_described_whole():
    """Tokens, blocks, limit and what the cache holds already."""
    made = session()
    first = sequence(1, prompt=[3] * 40, max_tokens=9, seed=77)
    admitted = made.occupy(first, [], 0)
    made.kv.publish(first, 40)
    second = sequence(2, prompt=[3] * 40, max_tokens=9)
    shared = made.occupy(second, made.kv.match(second), 0)
    assert (admitted.slot, admitted.computed_length, admitted.token_limit, admitted.seed) == (0, 0, 49, 77)
    assert (shared.slot, shared.computed_length) == (1, 32)
    assert shared.token_ids.tolist() == [3] * 40
    assert shared.blocks[:2].tolist() == admitted.blocks[:2].tolist()
    made.check_integrity()


def test_what_was_computed_stays_in_the_cache_after_a_sequence_left():
    """Only what answered plans have computed."""
    made = session()
    one = sequence(1, prompt=[3] * 48)
    made.occupy(one, [], 0)
    one.answered = 35
    made.vacate(one, State.ENDED, 0)
    assert len(made.kv.match(sequence(2, prompt=[3] * 48))) == 2
    made.check_integrity()


def test_what_is_not_to_be_trusted_does_not_stay():
    """Blocks of a failed sequence are forgotten."""
    made = session()
    one = sequence(1, prompt=[3] * 48)
    made.occupy(one, [], 0)
    made.kv.publish(one, 48)
    made.vacate(one, State.ENDED, 0, keep_blocks=False)
    assert made.kv.match(sequence(2, prompt=[3] * 48)) == []


def test_a_session_takes_the_smaller_of_settings_and_capacity():
    """Slots and budget."""
    made = session(max_slots=3, max_step_tokens=100)
    assert (made.running.num_slots, made.token_budget) == (3, 100)
    assert session().token_budget == 512
