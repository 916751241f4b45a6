"""The intake: what is refused at the door, before it is a sequence."""

from services.scheduler.core import admission
from services.scheduler.core.admission import Refusal
from services.scheduler.core.lifecycle import DEADLINE, POISONOUS, Lifecycle
from services.scheduler.core.queue_time import MAX_RETRY_US, MIN_RETRY_US
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.strikes import CONVICTED
from services.wire.scheduling import RejectReason, Submit

DRAINING = Refusal(RejectReason.DRAINING, "the server is shutting down: try another", retry_after_us=1_000_000)
DUPLICATE = Refusal(RejectReason.DUPLICATE_ID, "a request with this id is live already", "request_id")


class Intake:
    """Refuses or lets in."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    def submit(self, router: int, submit: Submit, at_us: int, *, is_draining: bool) -> None:
        life, refusal = self._lifecycle, self._refusal(submit, is_draining=is_draining)
        if not refusal:
            sequence = life.make(router, submit, at_us)
            refusal = None if submit.resubmitted else _too_late(sequence)
        if refusal:
            life.refuse(router, submit.handle, refusal, submit.attempt)
        else:
            life.enter(sequence, at_us)

    def _refusal(self, submit: Submit, *, is_draining: bool) -> Refusal | None:
        """A resubmitted one was let in before: it passes the drain, the bounds and the quota of requests."""
        if submit.attempt >= CONVICTED:
            return POISONOUS
        if submit.time_left_us == 0:
            return DEADLINE
        if self._lifecycle.registry.is_duplicate(submit):
            return DUPLICATE
        refusal = admission.static_refusal(submit, self._lifecycle.settings)
        if submit.latency_class not in self._lifecycle.classes:
            names = ", ".join(name for name in self._lifecycle.classes if name)
            refusal = Refusal(RejectReason.INVALID, f"this server has the classes {names}", "latency_class")
        if refusal or submit.resubmitted:
            return refusal
        if is_draining:
            return DRAINING
        return self._crowded(submit)

    def _crowded(self, submit: Submit) -> Refusal | None:
        life = self._lifecycle
        if not life.quotas.can_enter(submit):
            message = f"your quota is {submit.tenant_max_requests} requests at a time"
            return Refusal(RejectReason.QUOTA, message, "", life.queue_time.retry_after_us(life.session))
        if not life.queue.can_join(len(submit.token_ids), is_spare=life.classes[submit.latency_class].is_spare):
            message = "too many requests are waiting"
            return Refusal(RejectReason.QUEUE_FULL, message, "", life.queue_time.retry_after_us(life.session))
        return None


def _too_late(sequence: Sequence) -> Refusal | None:
    """Half of the time to the first token may go by in the queue; what would wait longer takes the others' time too."""
    promised = sequence.latency_class
    over_us = sequence.predicted_wait_us - promised.ttft_us // 2
    if over_us <= 0:
        return None
    message = f"too many requests are waiting for what the latency class {promised.name} promises"
    return Refusal(RejectReason.QUEUE_FULL, message, "", min(MAX_RETRY_US, max(MIN_RETRY_US, over_us)))
