from services.scheduler.core.progress import MAX_RETRY_US, MIN_RETRY_US, Progress
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.settings import CoreSettings
from tests.unit.scheduler.core.helpers import sequence


def progress(step_us: int = 1000) -> Progress:
    made = Progress(CoreSettings(token_budget=100))
    made.step_ended(100, step_us, at_us=10_000_000)
    return made


def test_progress_is_recent_for_two_seconds_or_five_steps():
    """Whichever is longer."""
    assert progress().is_recent(12_000_000)
    assert not progress().is_recent(12_000_001)
    assert progress(1_000_000).is_recent(15_000_000)
    assert not progress(1_000_000).is_recent(15_000_001)


def test_a_step_is_hung_after_twenty_predictions_but_never_within_ten_seconds():
    """Zero, no limit, is never given."""
    assert progress().time_limit_us(0) == 10_000_000
    assert progress().time_limit_us(1_000_000) == 20_000_000


def test_the_queue_model_counts_the_steps_of_the_prompts_before():
    """250 tokens at 100 a step are three steps."""
    queue = WaitingQueue(max_requests=9, max_tokens=10_000)
    made = [sequence(serial, prompt=125) for serial in range(3)]
    for one in made:
        queue.join(one)
    assert progress().wait_us(queue, before=made[2]) == 3000
    assert progress().wait_us(queue, before=made[0]) == 0


def test_a_retry_delay_is_bounded():
    """Neither at once nor in an hour."""
    queue = WaitingQueue(max_requests=9, max_tokens=10_000)
    assert progress().retry_after_us(queue) == MIN_RETRY_US
    queue.join(sequence(prompt=1900))
    assert progress(100_000_000).retry_after_us(queue) == MAX_RETRY_US


def test_the_age_of_the_last_step_is_zero_before_the_first():
    """Then it is the time since."""
    assert Progress(CoreSettings()).last_step_age_us(5) == 0
    assert progress().last_step_age_us(10_000_500) == 500
