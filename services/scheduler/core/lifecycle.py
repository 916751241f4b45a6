"""The lifecycle of sequences: how each enters, goes back to the queue, and ends exactly once."""

from services.scheduler.core import admission, strikes
from services.scheduler.core.admission import Refusal
from services.scheduler.core.alarms import Alarms
from services.scheduler.core.attainment import Attainment
from services.scheduler.core.bill import Overhead
from services.scheduler.core.latency_class import read_classes
from services.scheduler.core.outbox import Outbox
from services.scheduler.core.policies import policy_of
from services.scheduler.core.progress import Progress
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.queue_time import QueueTime
from services.scheduler.core.quota import Quotas
from services.scheduler.core.registry import Registry
from services.scheduler.core.sequence import Sequence, State
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from services.scheduler.core.strikes import Strikes
from services.wire.execution import Capacity, StepResult
from services.wire.scheduling import FinishCause, Finished, Rejected, RejectReason, Submit

UNAVAILABLE = Refusal(
    RejectReason.EXECUTOR_UNAVAILABLE, "the model is not available: try again", retry_after_us=1_000_000
)
DEADLINE = Refusal(RejectReason.DEADLINE, "the deadline has passed", "deadline_s")
FAILED = Refusal(RejectReason.FAILED, "the model's output for this request is not finite: it cannot go on")
POISONOUS = Refusal(RejectReason.POISONOUS, "computing this request ended the model's process again and again")
MODEL_CHANGED = Refusal(
    RejectReason.MODEL_CHANGED, "another model is served now than this answer began with: send the request again"
)


class Lifecycle:
    """Every collection that a sequence can be in, and the only code that moves it between them."""

    def __init__(self, settings: CoreSettings, progress: Progress) -> None:
        self.settings = settings
        self._progress = progress
        self.classes = read_classes(settings.latency_classes, settings.default_latency_class)
        self.attainment = Attainment()
        self.registry = Registry()
        self.queue = WaitingQueue(
            max_requests=settings.max_waiting_requests,
            max_tokens=settings.max_waiting_tokens,
            policy=policy_of(settings, self._first_token_us),
        )
        self.queue_time = QueueTime(self.queue, progress)
        self.quotas = Quotas()
        self.alarms = Alarms()
        self.outbox = Outbox()
        self.strikes = Strikes()
        self.session: Session | None = None
        self.capacity: Capacity | None = None
        """Of the newest executor, gone or not."""
        self.lost_us = 0
        """When the newest executor was lost; the start, before there was any."""
        self.overhead = Overhead()
        self.num_steps = 0
        self.newest_result: StepResult | None = None
        self.num_finished = 0
        self.num_rejected = 0
        self._num_entered = 0

    # ---- in

    def make(self, router: int, submit: Submit, at_us: int) -> Sequence:
        """What `enter` takes, or nobody."""
        sequence = Sequence(
            serial=self._num_entered,
            router=router,
            submit=submit,
            arrived_us=at_us,
            fingerprint=self.capacity.card.fingerprint if self.capacity else "",
            latency_class=self.classes[submit.latency_class],
        )
        if submit.time_left_us >= 0:
            sequence.deadline_us = at_us + submit.time_left_us
        sequence.hopeless_us = self.queue.policy.hopeless_us(sequence)
        if sequence.latency_class.ttft_us:
            sequence.predicted_wait_us = self.queue_time.predict_us(self.session, sequence)
        return sequence

    def enter(self, sequence: Sequence, at_us: int) -> None:
        """A request that nothing speaks against so far joins the queue."""
        self._num_entered += 1
        self.registry.enter(sequence)
        self.quotas.enter(sequence)
        for moment_us in (sequence.deadline_us, sequence.hopeless_us):
            if moment_us >= 0:
                self.alarms.set(moment_us, sequence)
        self.queue.join(sequence)
        if self.session is None:
            self._start_grace(sequence, at_us)
        if self.capacity:
            self.check_fit(sequence, at_us)
        if sequence.is_waiting and 0 <= sequence.hopeless_us <= at_us:
            self._reject_hopeless(sequence, at_us)

    def _first_token_us(self, sequence: Sequence) -> int:
        """How long a newcomer's prompt takes, alone and with what is cached of it now."""
        kv = self.session.kv if self.session else None
        num_cached = len(kv.match(sequence)) * kv.block_size if kv else 0
        return self._progress.prompt_us(sequence.num_stored - num_cached, sequence.arrived_us)

    def check_fit(self, sequence: Sequence, at_us: int) -> None:
        """Decides for the executor at hand whether a waiting sequence can ever be served; ends it if not."""
        submit, capacity = sequence.submit, self.capacity
        assert capacity is not None
        card, limit = capacity.card, admission.token_limit(submit, self.settings, capacity)
        sequence.grace_ends_us = -1 if self.session else sequence.grace_ends_us
        sequence.fingerprint = sequence.fingerprint or card.fingerprint
        if sequence.fingerprint != card.fingerprint:
            self.reject(sequence, MODEL_CHANGED, at_us)
            return
        sequence.limit = limit
        refusal = admission.model_refusal(submit, self.settings, capacity)
        refusal = refusal or admission.quota_refusal(submit, limit, capacity)
        if refusal:
            self.reject(sequence, refusal, at_us)
        elif admission.has_stopped(submit, card):
            self.finish(sequence, FinishCause.STOP_TOKEN, at_us)
        elif sequence.num_stored >= limit and sequence.num_stored > submit.prompt_length:
            # Resumed with all of its tokens, or in a smaller pool than before: the answer is as long as it can be.
            self.finish(sequence, FinishCause.LENGTH, at_us)

    # ---- back

    def lose_executor(self, at_us: int) -> None:
        """All that run go back to the front of the queue, whole, in the order of their admission."""
        session = self.session
        assert session is not None
        suspects = strikes.suspects(session.flights[0], session.running) if session.flights else []
        for sequence in reversed(list(session.running)):
            session.vacate(sequence, State.WAITING, at_us)
            self.queue.rejoin(sequence)
        self.session, self.lost_us = None, at_us
        self.queue.unhold()
        for sequence in self.strikes.lose(suspects, at_us):
            self.reject(sequence, POISONOUS, at_us)
        for sequence in self.queue:
            self._start_grace(sequence, at_us)

    def _start_grace(self, sequence: Sequence, at_us: int) -> None:
        sequence.grace_ends_us = at_us + self.settings.executor_grace_us
        self.alarms.set(sequence.grace_ends_us, sequence)

    # ---- out

    def expire(self, at_us: int) -> None:
        """Ends those whose deadline has passed, and those that have waited too long for an executor."""
        for sequence in self.alarms.due(at_us):
            if sequence.state is State.ENDED:
                continue
            if 0 <= sequence.deadline_us <= at_us:
                self.reject(sequence, DEADLINE, at_us)
            elif self.session is None and sequence.grace_ends_us <= at_us:
                self.reject(sequence, UNAVAILABLE, at_us)
            elif 0 <= sequence.hopeless_us <= at_us and sequence.account.admitted_us < 0:
                self._look_again(sequence, at_us)

    def finish(self, sequence: Sequence, cause: FinishCause, at_us: int, *, accepted_count: int | None = None) -> None:
        """The last word of an answer; `accepted_count` is how many tokens its client has, where that is fewer."""
        submit = sequence.submit
        num_known = self.session.running.known(sequence) if self.session else sequence.num_stored
        output = num_known - submit.prompt_length
        if accepted_count is not None:
            output = min(output, accepted_count)
        self._remove(sequence, at_us)
        self.num_finished += 1
        if sequence.account.admitted_us >= 0 and not sequence.is_spare:
            num_received = len(submit.token_ids)
            self.queue_time.ended(num_known - num_received, sequence.limit - num_received)
        if cause is not FinishCause.CANCELLED:
            self.attainment.end(sequence, output - submit.accepted_count, at_us)
        account, arrived_us = sequence.account, sequence.arrived_us
        admitted_us = account.admitted_us if account.admitted_us >= 0 else at_us
        first_us = account.first_token_us if account.first_token_us >= 0 else at_us
        self.outbox.put(
            sequence.router,
            Finished(
                handle=submit.handle,
                cause=cause,
                bill=account.close(max(0, output - submit.accepted_count)),
                queued_us=admitted_us - arrived_us,
                prefill_us=max(0, first_us - admitted_us),
            ),
        )

    def reject(self, sequence: Sequence, refusal: Refusal, at_us: int, *, keep_blocks: bool = True) -> None:
        """The last word of a request that ends with an error."""
        self.abandon(sequence, at_us, keep_blocks=keep_blocks)
        self.attainment.end(sequence, 0, at_us)
        self.refuse(sequence.router, sequence.submit.handle, refusal, sequence.strikes)

    def _look_again(self, sequence: Sequence, at_us: int) -> None:
        """Its moment has come; more of its prompt may be cached than when it was set."""
        sequence.hopeless_us = self.queue.policy.hopeless_us(sequence)
        if 0 <= sequence.hopeless_us <= at_us:
            self._reject_hopeless(sequence, at_us)
        elif sequence.hopeless_us >= 0:
            self.alarms.set(sequence.hopeless_us, sequence)

    def _reject_hopeless(self, sequence: Sequence, at_us: int) -> None:
        message = "its first token could not come in time: come back later, or allow more time"
        retry_after_us = self.queue_time.retry_after_us(self.session)
        self.reject(sequence, Refusal(RejectReason.DEADLINE, message, "deadline_s", retry_after_us), at_us)

    def refuse(self, router: int, handle: int, refusal: Refusal, attempt: int) -> None:
        self.num_rejected += 1
        body = Rejected(
            handle=handle,
            reason=refusal.reason,
            field=refusal.field,
            message=refusal.message,
            retry_after_us=refusal.retry_after_us,
            attempt=attempt,
        )
        self.outbox.put(router, body)

    def abandon(self, sequence: Sequence, at_us: int, *, keep_blocks: bool = True) -> None:
        """Without a bill, and with no word to anyone."""
        self._remove(sequence, at_us, keep_blocks=keep_blocks)
        self.overhead.add("unbilled", sequence.account.executor_ns)

    def _remove(self, sequence: Sequence, at_us: int, *, keep_blocks: bool = True) -> None:
        """Out of every collection."""
        if sequence.is_running:
            assert self.session is not None
            self.session.vacate(sequence, State.ENDED, at_us, keep_blocks=keep_blocks)
            self.queue.policy.release(sequence)
        else:
            self.queue.leave(sequence)
            sequence.move(State.ENDED)
        strikes.leave(sequence)
        self.registry.leave(sequence)
        self.quotas.leave(sequence)
