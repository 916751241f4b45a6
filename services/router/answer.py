"""An answer: one sequence, from the tokens that a scheduler computes to the text that waits for the client."""

import asyncio
import time
from collections.abc import Callable, Sequence

from headway.v1 import inference_pb2 as api

from services.router.bills import bill_to_proto
from services.router.fleet import Fleet
from services.router.logprob_rows import LogprobRow, token_logprobs
from services.router.order import Order
from services.router.pending_delta import PendingDelta
from services.router.prompt_logprobs import PromptLogprobs
from services.router.reject_reasons import refusal_of
from services.router.retries import Retries
from services.router.scheduler_link import SchedulerLink
from services.router.text.answer_text import AnswerText, AnswerUpdate
from services.router.token_timing import TokenTiming
from services.runtime.errors import Refusal, internal, invalid_field, unavailable
from services.wire.scheduling import FinishCause, Finished, Rejected, SchedulerHello, Submit

_DUPLICATE_PAUSE_S = 0.1  # until a scheduler has noticed that the stream which held the id is gone

_REASONS = {
    FinishCause.STOP_TOKEN: api.FINISH_REASON_STOP_TOKEN,
    FinishCause.LENGTH: api.FINISH_REASON_LENGTH,
    FinishCause.CANCELLED: api.FINISH_REASON_ABORTED,  # not by us: we hear no more of what we cancel
}


class Answer:
    """Ends exactly once: with `finished`, or with `refusal`. `changed` is called whenever there is more to take."""

    def __init__(
        self, order: Order, text: AnswerText, fleet: Fleet, *, arrived_at: float, changed: Callable[[], None]
    ) -> None:
        self.pending = PendingDelta(order.index)
        self.finished: api.Finished | None = None
        self.refusal: Refusal | None = None
        self.told = False  # the client's writer has taken `finished`
        self._order = order
        self._text = text
        self._fleet = fleet
        self._changed = changed
        self._accepted: list[int] = []
        self._stop_token_id: int | None = None
        self._prompt_logprobs = PromptLogprobs(wanted=order.wants_prompt_logprobs)
        self._timing = TokenTiming(arrived_at)
        self._seat: tuple[SchedulerLink, int] | None = None
        self._retries = Retries(resumed=order.request.resume_ids is not None)
        self._waiting_for_id: asyncio.TimerHandle | None = None

    @property
    def index(self) -> int:
        return self._order.index

    @property
    def fingerprint(self) -> str:
        return self._order.fingerprint

    @property
    def ended(self) -> bool:
        return self.finished is not None or self.refusal is not None

    @property
    def waits_for_scheduler(self) -> bool:
        return self._seat is None and not self.ended

    @property
    def num_accepted(self) -> int:
        return len(self._accepted)

    # ---- begin

    def resume(self, token_ids: Sequence[int]) -> None:
        """Takes what the client has received already; its text is not sent again. Raises `Refusal`."""
        update = self._text.prime(token_ids)
        if update.accepted < len(token_ids):
            why = f"goes on after the answer had ended with token {update.accepted - 1}"
            raise invalid_field("resume.token_ids", why)
        self._accepted = list(token_ids)
        self._heed(update)
        if self._accepted:
            self._prompt_logprobs.wanted = False  # they came with the first token

    def begin(self) -> None:
        """Has the answer computed, unless it is complete already."""
        if not self.ended and not self._finish_if_complete():
            self._fleet.place(self)

    def seated(self, link: SchedulerLink, handle: int) -> None:
        self._seat = link, handle

    def submission(self, handle: int, hello: SchedulerHello) -> Submit:
        """All that a scheduler needs to compute the rest of the answer."""
        wanted = self._prompt_logprobs.wanted
        return self._order.submission(handle, hello, self._accepted, self._retries, prompt_logprobs=wanted)

    # ---- what a scheduler says

    def take_prompt_rows(self, rows: Sequence[LogprobRow]) -> None:
        self._prompt_logprobs.add(rows)

    def take_tokens(self, token_ids: Sequence[int], rows: Sequence[LogprobRow]) -> None:
        if self.ended or not token_ids:
            return
        if self._prompt_logprobs.wanted:
            self.pending.add_prompt_logprobs(self._prompt_logprobs.take(self._order.chain.token_ids))
        update = self._text.push(token_ids)
        self._accept(token_ids[: update.accepted], rows)
        self.pending.add_text(update.text)
        self._timing.tokens(update.accepted, time.perf_counter())
        self._heed(update)
        self._retries.grew()
        self._changed()

    def take_finished(self, finished: Finished) -> None:
        self._seat = None
        if self.ended:
            return
        reason = _REASONS.get(finished.cause)
        if finished.cause == FinishCause.STOP_TOKEN and self._stop_token_id is None:
            reason = None
        if finished.cause == FinishCause.LENGTH and self._order.max_tokens > 0 and not self._accepted:
            reason = None
        if reason is None:
            self.fail(internal())
            return
        self.pending.add_prompt_logprobs(self._prompt_logprobs.take(self._order.chain.token_ids))
        self._finish(reason, scheduler=finished)

    def take_rejected(self, rejected: Rejected) -> None:
        seat, self._seat = self._seat, None
        if self.ended:
            return
        self._retries.rejected(rejected, had_tokens=bool(self._accepted))
        if seat and self._retries.may_move(rejected.reason) and self._fleet.place_elsewhere(self, seat[0]):
            return
        if self._retries.may_wait_for_id(rejected.reason):
            loop = asyncio.get_running_loop()
            self._waiting_for_id = loop.call_later(_DUPLICATE_PAUSE_S, self._fleet.place, self)
            return
        self.fail(refusal_of(rejected))

    def lost(self) -> None:
        """The scheduler, or the stream to it, is gone: what is accepted stays, the rest is computed elsewhere or later."""
        self._seat = None
        if self.ended or self._finish_if_complete():
            return
        if self._retries.may_after_loss():
            self._fleet.place(self)
            return
        message = "the scheduler was lost repeatedly before the answer grew; send the request again"
        self.fail(unavailable(message, "SCHEDULER_LOST", 1.0))

    # ---- end

    def abort(self) -> None:
        """Ends the answer with what it has."""
        if not self.ended:
            self._unseat()
            self._finish(api.FINISH_REASON_ABORTED)

    def fail(self, refusal: Refusal) -> None:
        """Ends the answer with an error."""
        if not self.ended:
            self._unseat()
            self.refusal = refusal
            self._changed()

    def _unseat(self) -> None:
        self._fleet.forget(self)
        if self._waiting_for_id is not None:
            self._waiting_for_id.cancel()
        if self._seat is not None:
            link, handle = self._seat
            self._seat = None
            link.cancel(handle)

    def _accept(self, token_ids: Sequence[int], rows: Sequence[LogprobRow]) -> None:
        """Makes `token_ids` part of the answer and of the pending delta."""
        start = len(self._order.chain) + len(self._accepted)
        self._accepted += token_ids
        if self._order.request.sampling.logprobs < 0:
            self.pending.add_tokens(token_ids)
            return
        by_position = {row.position: row for row in rows}
        logprobs = [token_logprobs(id_, by_position.get(position)) for position, id_ in enumerate(token_ids, start)]
        self.pending.add_tokens(token_ids, logprobs)

    def _heed(self, update: AnswerUpdate) -> None:
        """Acts on an end that the text has found. A stop token is the scheduler's to report, with its bill."""
        self._stop_token_id = update.stop_token_id
        if update.stop_string is None:
            return
        if self._seat is not None:
            link, handle = self._seat
            self._seat = None
            link.stop(handle, len(self._accepted))
        self._finish(api.FINISH_REASON_STOP_STRING, stop_string=update.stop_string)

    def _finish_if_complete(self) -> bool:
        """Ends an answer whose last word was lost with its scheduler, or that a client resumes at its end."""
        if self._stop_token_id is not None:
            self._finish(api.FINISH_REASON_STOP_TOKEN)
        elif self._accepted and len(self._accepted) >= self._order.max_tokens:
            self._finish(api.FINISH_REASON_LENGTH)
        return self.ended

    def _finish(
        self, reason: api.FinishReason, *, stop_string: str | None = None, scheduler: Finished | None = None
    ) -> None:
        """Ends the answer. Its last text goes out in one message with the end, so that a resumed client misses none."""
        rest = self._text.finish()
        self.pending.add_text(rest.text)
        if rest.stop_string is not None:
            reason, stop_string = api.FINISH_REASON_STOP_STRING, rest.stop_string
        cached = scheduler.bill.cached_tokens if scheduler else 0
        timings = self._timing.to_proto(
            time.perf_counter(),
            queued_s=scheduler.queued_us / 1e6 if scheduler else 0.0,
            prefill_s=scheduler.prefill_us / 1e6 if scheduler else 0.0,
        )
        self.finished = api.Finished(
            index=self._order.index,
            reason=reason,
            stop_token_id=self._stop_token_id if reason == api.FINISH_REASON_STOP_TOKEN else None,
            stop_string=stop_string,
            usage=api.Usage(
                prompt_tokens=len(self._order.chain), cached_tokens=cached, completion_tokens=len(self._accepted)
            ),
            bill=bill_to_proto(scheduler.bill) if scheduler else None,
            timings=timings,
        )
        self._changed()
