"""The intake: what is refused at the door, before it is a sequence."""

from services.scheduler.core import admission
from services.scheduler.core.admission import Refusal
from services.scheduler.core.lifecycle import DEADLINE, POISONOUS, Lifecycle
from services.scheduler.core.progress import Progress
from services.scheduler.core.strikes import CONVICTED
from services.wire.scheduling import RejectReason, Submit

DRAINING = Refusal(RejectReason.DRAINING, "the server is shutting down: try another", retry_after_us=1_000_000)
DUPLICATE = Refusal(RejectReason.DUPLICATE_ID, "a request with this id is live already", "request_id")


class Intake:
    """Refuses or lets in."""

    def __init__(self, lifecycle: Lifecycle, progress: Progress) -> None:
        self._lifecycle = lifecycle
        self._progress = progress

    def submit(self, router: int, submit: Submit, at_us: int, *, is_draining: bool) -> None:
        refusal = self._refusal(submit, is_draining=is_draining)
        if refusal:
            self._lifecycle.refuse(router, submit.handle, refusal, submit.attempt)
        else:
            self._lifecycle.enter(router, submit, at_us)

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
        queue, quotas = self._lifecycle.queue, self._lifecycle.quotas
        if not quotas.can_enter(submit):
            message = f"your quota is {submit.tenant_max_requests} requests at a time"
            return Refusal(RejectReason.QUOTA, message, "", self._progress.retry_after_us(queue))
        if not queue.can_join(len(submit.token_ids)):
            message = "too many requests are waiting"
            return Refusal(RejectReason.QUEUE_FULL, message, "", self._progress.retry_after_us(queue))
        return None
