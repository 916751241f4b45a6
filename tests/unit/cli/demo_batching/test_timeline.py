"""Who was in which slot, read out of an event log."""

import pytest

from services.cli.console import Failed
from services.cli.demo_batching.timeline import Stretch, Timeline, read_timeline
from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from services.scheduler.recorder import Recorder
from services.wire.execution import Sampling
from tests.simulation.strict_engine import StrictEngine

MS = 1000
ENDLESS = Sampling(ignore_eos=True)


def timeline(path, play, **settings) -> Timeline:
    """Records what `play` does with a driver whose steps take a millisecond, one plan at a time, and reads it back."""
    chosen = CoreSettings(pipeline_depth=1, **settings)
    with path.open("wb") as file:
        driver = Driver(chosen, StrictEngine(step_us=MS), recorder=Recorder(file, chosen))
        driver.start()
        play(driver)
        driver.run()
    return read_timeline(path, {f"r{number}": number for number in range(9)}, gate_id="gate")


def submit(driver, number, max_tokens, *, at_us=None, prompt=10):
    tokens = [number + 1] * prompt
    driver.submit(tokens, max_tokens=max_tokens, seed=number, request_id=f"r{number}", sampling=ENDLESS, at_us=at_us)


def short_and_long(driver):
    for number, max_tokens in enumerate((3, 8, 4)):
        submit(driver, number, max_tokens)


def test_a_slot_is_held_empty_until_its_static_batch_has_ended(tmp_path):
    """3 tokens beside 8: the rest of the batch is grey; the third request has the next batch for itself."""
    seen = timeline(tmp_path / "log", short_and_long, max_slots=2, batching="static")
    assert set(seen.stretches) == {
        Stretch(0, 0, 3 * MS, 0),
        Stretch(0, 3 * MS, 8 * MS, None),
        Stretch(1, 0, 8 * MS, 1),
        Stretch(1, 8 * MS, 12 * MS, 2),
    }
    assert (seen.useful_slot_steps, seen.held_slot_steps) == (15, 2 * 8 + 4)
    assert seen.utilization == 15 / 20
    assert (seen.num_slots, seen.end_us) == (2, 12 * MS)


def test_a_slot_is_given_on_in_continuous_batching(tmp_path):
    """The third request follows the first in its slot, and nothing is grey."""
    seen = timeline(tmp_path / "log", short_and_long, max_slots=2)
    assert set(seen.stretches) == {
        Stretch(0, 0, 3 * MS, 0),
        Stretch(0, 3 * MS, 7 * MS, 2),
        Stretch(1, 0, 8 * MS, 1),
    }
    assert seen.utilization == 1


def test_a_slot_is_held_for_a_member_whose_prompt_is_not_in_turn_yet(tmp_path):
    """With a budget of one prompt a step, the second of a batch starts a step later: its slot was held before."""
    seen = timeline(
        tmp_path / "log",
        lambda driver: [submit(driver, number, 3, prompt=20) for number in range(2)],
        max_slots=2,
        batching="static",
        token_budget=20,
        prefix_cache=False,
    )
    assert Stretch(1, 0, MS, None) in seen.stretches


def test_what_a_run_does_not_hold_between_batches_is_empty(tmp_path):
    """From the end of one batch to an arrival that comes later no slot is held."""

    def play(driver):
        submit(driver, 0, 4)
        submit(driver, 1, 4, at_us=20 * MS)

    seen = timeline(tmp_path / "log", play, max_slots=2, batching="static")
    assert [(each.begin_us, each.end_us, each.request) for each in seen.stretches] == [
        (0, 4 * MS, 0),
        (20 * MS, 24 * MS, 1),
    ]


@pytest.mark.parametrize("batching", ["static", "continuous"])
def test_time_begins_when_the_gate_has_ended(tmp_path, batching):
    """What came before it, and the gate itself, is not part of the run."""

    def play(driver):
        driver.submit([5] * 40, max_tokens=1, request_id="gate", seed=99)
        driver.at(500, lambda: short_and_long(driver))

    seen = timeline(tmp_path / "log", play, max_slots=2, batching=batching, token_budget=40)
    assert min(each.begin_us for each in seen.stretches) == 0
    assert {each.request for each in seen.stretches if each.begin_us == 0} == {0, 1}
    assert seen.useful_slot_steps == 15


def test_a_lost_executor_empties_the_slots(tmp_path):
    """Its sequences are in slots again with the next executor."""

    def play(driver):
        submit(driver, 0, 10)
        driver.at(4 * MS + 500, driver.lose_executor)
        driver.at(9 * MS, driver.executor_up)

    seen = timeline(tmp_path / "log", play)
    assert [each.request for each in seen.stretches] == [0, 0]
    assert (seen.stretches[0].end_us, seen.stretches[1].begin_us) == (4 * MS + 500, 9 * MS)


def test_a_log_in_pieces_is_refused(tmp_path):
    """A scheduler that was started again wrote another file: half a picture would be a wrong one."""
    (tmp_path / "log.1").touch()
    with pytest.raises(Failed, match="in pieces"):
        timeline(tmp_path / "log", short_and_long)
