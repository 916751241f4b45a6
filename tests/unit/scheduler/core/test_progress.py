import numpy as np

from services.scheduler.core.flight import Flight
from services.scheduler.core.progress import Progress
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.settings import CoreSettings
from tests.unit.scheduler.core.helpers import sequence


def flight(num_tokens: int) -> Flight:
    nobody = np.empty(0, np.intp)
    return Flight(1, 1, 0, 0, num_tokens, nobody, nobody, np.empty(0, np.int32), ())


def progress(step_us: int = 1000) -> Progress:
    made = Progress(CoreSettings(token_budget=100))
    made.step_ended(flight(100), 100, step_us, at_us=10_000_000)
    return made


def test_progress_is_recent_for_two_seconds_or_five_steps():
    """Whichever is longer."""
    assert progress().is_recent(12_000_000, None)
    assert not progress().is_recent(12_000_001, None)
    assert progress(1_000_000).is_recent(15_000_000, None)
    assert not progress(1_000_000).is_recent(15_000_001, None)


def test_a_decode_is_late_by_its_own_prediction():
    """After decodes of 50 ms a hung decode is late after 2 s, whatever a step of the full budget might take."""
    made = Progress(CoreSettings(token_budget=512))
    for _ in range(20):
        made.step_ended(flight(1), 1, 50_000, at_us=0)
    made.step_ended(flight(512), 512, 3_000_000, at_us=0)
    assert made.predicted_us(flight(1)) == 50_000
    assert made.is_recent(2_000_000, flight(1))
    assert not made.is_recent(2_000_001, flight(1))
    assert made.is_recent(15_000_000, flight(512))
    assert not made.is_recent(15_000_001, flight(512))


def test_decodes_alone_inflate_no_promise():
    """A full step of unknown length is late within 10 s, a plan hung within 120 s."""
    made = Progress(CoreSettings(token_budget=512))
    for _ in range(20):
        made.step_ended(flight(1), 1, 50_000, at_us=0)
    assert not made.is_recent(10_000_000, flight(512))
    assert made.time_limit_us(1) == 10_000_000
    assert made.time_limit_us(512) == 120_000_000


def test_a_step_is_hung_after_twenty_predictions_but_never_within_ten_seconds():
    """Nor after two minutes, unless five predictions are more."""
    assert Progress(CoreSettings()).time_limit_us(100) == 10_000_000
    assert progress().time_limit_us(100) == 10_000_000
    assert progress(1_000_000).time_limit_us(100) == 20_000_000
    assert progress(10_000_000).time_limit_us(100) == 120_000_000
    assert progress(30_000_000).time_limit_us(100) == 150_000_000


def test_the_queue_model_counts_the_steps_of_the_prompts_before():
    """250 tokens at 100 a step are three steps."""
    queue = WaitingQueue(max_requests=9, max_tokens=10_000)
    made = [sequence(serial, prompt=125) for serial in range(3)]
    for one in made:
        queue.join(one)
    assert progress().wait_us(queue, before=made[2]) == 3000
    assert progress().wait_us(queue, before=made[0]) == 0


def test_the_age_of_the_last_step_is_zero_before_the_first():
    """Then it is the time since."""
    assert Progress(CoreSettings()).last_step_age_us(5) == 0
    assert progress().last_step_age_us(10_000_500) == 500


def test_a_prompt_takes_its_steps_if_steps_have_ended_of_late():
    """250 tokens at 100 a step, 10 us a token and 1 ms a step; what is not known promises nothing."""
    made = Progress(CoreSettings(token_budget=100))
    assert made.prompt_us(250, 0) == 0
    for num_tokens in (1, 5, 50, 100):
        made.step_ended(flight(num_tokens), num_tokens, 1000 + 10 * num_tokens, at_us=1000)
    assert abs(made.prompt_us(250, 1000) - 5500) < 100
    assert made.prompt_us(250, 11_000_000) == 0


def test_steps_of_one_size_promise_nothing_of_a_prompt():
    """After decodes of 10 ms alone nobody knows how long 500 tokens take; after a step of 50 tokens it is known."""
    made = Progress(CoreSettings(token_budget=512))
    for _ in range(100):
        made.step_ended(flight(1), 1, 10_000, at_us=1000)
    assert made.prompt_us(500, 1000) == 0
    made.step_ended(flight(50), 50, 12_500, at_us=1000)
    assert abs(made.prompt_us(500, 1000) - 35_000) < 500
