import pytest

from services.scheduler.core.intake import Intake
from services.scheduler.core.lifecycle import Lifecycle
from services.scheduler.core.progress import Progress
from services.scheduler.core.queue_time import MIN_RETRY_US
from services.scheduler.core.settings import CoreSettings
from services.wire.scheduling import RejectReason
from tests.unit.scheduler.core.helpers import submit


class Door:
    """An intake with one open router and room for one waiting request."""

    def __init__(self, max_waiting_requests: int = 1) -> None:
        settings = CoreSettings(max_waiting_requests=max_waiting_requests)
        progress = Progress(settings)
        self.lifecycle = Lifecycle(settings, progress)
        self.lifecycle.registry.open(1)
        self.intake = Intake(self.lifecycle)

    def knock(self, handle: int, *, is_draining: bool = False, **fields) -> RejectReason | None:
        """Why it was refused."""
        self.intake.submit(1, submit(handle, **fields), 0, is_draining=is_draining)
        words = self.lifecycle.outbox.take()
        self.last = words[0][1].body if words else None
        return self.last.reason if self.last else None


def test_one_is_let_in_and_the_next_finds_the_queue_full():
    """Refused at once; what is refused is not a sequence."""
    door = Door()
    assert door.knock(1) is None
    assert door.knock(2) is RejectReason.QUEUE_FULL
    assert len(door.lifecycle.registry) == 1


def test_a_resubmitted_request_passes_bounds_quota_and_drain():
    """It had been let in before."""
    door = Door()
    assert door.knock(1) is None
    assert door.knock(2, resubmitted=True, tenant_max_requests=1, is_draining=True) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"attempt": 3, "resubmitted": True}, RejectReason.POISONOUS),
        ({"time_left_us": 0, "resubmitted": True}, RejectReason.DEADLINE),
        ({"request_id": "r1", "resubmitted": True}, RejectReason.DUPLICATE_ID),
        ({"max_tokens": 0, "resubmitted": True}, RejectReason.INVALID),
        ({"latency_class": "no such", "resubmitted": True}, RejectReason.INVALID),
        ({"is_draining": True}, RejectReason.DRAINING),
        ({"tenant_max_requests": 1}, RejectReason.QUOTA),
    ],
)
def test_each_refusal_has_its_reason(fields: dict, reason: RejectReason):
    """What is wrong with the request itself holds for a resubmitted one too."""
    door = Door()
    door.knock(1)
    assert door.knock(2, **fields) is reason


def test_who_would_wait_for_more_than_half_of_its_target_is_refused_with_a_delay():
    """A chat is, behind a queue of 300 ms; a document has time, and one that is promised nothing takes its chance."""
    door = Door(max_waiting_requests=9)
    door.lifecycle.queue_time.predict_us = lambda *_: 300_000
    assert door.knock(1, latency_class="chat") is RejectReason.QUEUE_FULL
    assert door.last.retry_after_us == MIN_RETRY_US
    assert door.knock(2, latency_class="document") is None
    assert door.knock(3) is None
    assert door.knock(4, latency_class="chat", resubmitted=True) is None


def test_a_queue_full_of_batch_work_takes_a_chat():
    """Only more batch work is refused."""
    door = Door(max_waiting_requests=2)
    assert [door.knock(n, latency_class="batch") for n in (1, 2, 3)] == [None, None, RejectReason.QUEUE_FULL]
    assert door.knock(4, latency_class="chat") is None
