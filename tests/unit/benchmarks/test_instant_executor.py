"""The instant executor."""

from benchmarks.instant_executor import InstantExecutor
from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from services.wire.scheduling import FinishCause

SETTINGS = CoreSettings(max_slots=4, token_budget=24)


def test_it_answers_whatever_a_core_plans():
    """Chunks, decodes, limits, prefix hits and slots used again: each request gets its tokens and ends by its length."""
    driver = Driver(SETTINGS, InstantExecutor(64), check_integrity=True)
    driver.start()
    answers = [driver.submit([number % 3] * (10 + 9 * number), max_tokens=5 + number) for number in range(10)]
    driver.run()
    assert [len(answer.token_ids) for answer in answers] == [5 + number for number in range(10)]
    assert {answer.finished.cause for answer in answers} == {FinishCause.LENGTH}


def test_it_follows_a_preemption():
    """A sequence that is sent back and admitted again goes on where it was."""
    driver = Driver(SETTINGS, InstantExecutor(64), check_integrity=True)
    driver.start()
    answer = driver.submit([1] * 20, max_tokens=30)
    driver.before_step(10, lambda: driver.preempt(answer))
    driver.run()
    assert len(answer.token_ids) == 30
