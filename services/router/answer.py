"""An answer: one sequence, from the tokens that a scheduler computes to the text that waits for the client."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence

from headway.v1 import inference_pb2 as api

from services.router.bills import bill_to_proto
from services.router.checked_request import CheckedRequest
from services.router.fleet import Fleet
from services.router.logprob_rows import LogprobRow
from services.router.pending_delta import PendingDelta
from services.router.prompt_chain import PromptChain
from services.router.reject_reasons import refusal_of
from services.router.scheduler_link import SchedulerLink
from services.router.seeds import answer_seed
from services.router.text.answer_text import AnswerText, AnswerUpdate
from services.router.token_timing import TokenTiming
from services.runtime.errors import Refusal, internal, invalid_field, unavailable
from services.wire.execution import Sampling
from services.wire.scheduling import (
    FinishCause,
    Finished,
    Rejected,
    RejectReason,
    SchedulerHello,
    Submit,
)

MAX_LOSSES_WITHOUT_PROGRESS = 2
_MAX_MOVES = 4  # from a scheduler that turned the sequence away, before it grows
_MAX_DUPLICATE_RETRIES = 20
_DUPLICATE_PAUSE_S = 0.1  # until a scheduler has noticed that the stream which held the id is gone

_REASONS = {
    FinishCause.STOP_TOKEN: api.FINISH_REASON_STOP_TOKEN,
    FinishCause.LENGTH: api.FINISH_REASON_LENGTH,
    FinishCause.CANCELLED: api.FINISH_REASON_ABORTED,  # not by us: we hear no more of what we cancel
}
_ELSEWHERE = {RejectReason.EXECUTOR_UNAVAILABLE, RejectReason.DRAINING}


class Answer:
    """Ends exactly once: with `finished`, or with `refusal`. `changed` is called whenever there is more to take."""

    def __init__(
        self,
        *,
        request: CheckedRequest,
        tenant: str,
        index: int,
        max_tokens: int,
        chain: PromptChain,
        fingerprint: str,
        text: AnswerText,
        fleet: Fleet,
        arrived_at: float,
        deadline_at: float | None,
        changed: Callable[[], None],
    ) -> None:
        self.index = index
        self.fingerprint = fingerprint
        self.pending = PendingDelta(index)
        self.finished: api.Finished | None = None
        self.refusal: Refusal | None = None
        self.told = False  # the client's writer has taken `finished`
        self._request = request
        self._tenant = tenant
        self._max_tokens = max_tokens
        self._chain = chain
        self._fleet = fleet
        self._deadline_at = deadline_at
        self._changed = changed
        self._text = text
        self._stop_token_id: int | None = None
        self._accepted: list[int] = []
        self._timing = TokenTiming(arrived_at)
        self._prompt_rows: dict[int, LogprobRow] = {}
        self._wants_prompt_rows = request.sampling.prompt_logprobs >= 0 and index == 0
        self._seat: tuple[SchedulerLink, int] | None = None
        self._num_losses = 0
        self._num_moves = 0
        self._num_duplicates = 0
        self._attempt = 0
        self._resubmitted = False
        self._retry: asyncio.TimerHandle | None = None

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
            self._wants_prompt_rows = False  # they came with the first token

    def begin(self) -> None:
        """Has the answer computed, unless it is complete already."""
        if not self.ended and not self._finish_if_complete():
            self._fleet.place(self)

    def seated(self, link: SchedulerLink, handle: int) -> None:
        self._seat = link, handle

    def submission(self, handle: int, hello: SchedulerHello) -> Submit:
        """All that a scheduler needs to compute the rest of the answer."""
        token_ids, hashes = self._chain.extended(self._accepted, hello.block_size)
        left_us = -1
        if self._deadline_at is not None:
            left_us = max(int((self._deadline_at - asyncio.get_running_loop().time()) * 1e6), 0)
        return Submit(
            handle=handle,
            tenant=self._tenant,
            request_id=self._request.request_id,
            answer_index=self.index,
            token_ids=token_ids,
            prompt_length=len(self._chain),
            accepted_count=len(self._accepted),
            chain_root=self._chain.root,
            block_hashes=hashes,
            seed=answer_seed(self._request.seed, self.index, self._request.n),
            sampling=self._sampling(),
            max_tokens=self._max_tokens,
            priority=self._request.priority,
            latency_class=self._request.latency_class,
            time_left_us=left_us,
            attempt=self._attempt,
            resubmitted=self._resubmitted,
        )

    # ---- what a scheduler says

    def take_prompt_rows(self, rows: Sequence[LogprobRow]) -> None:
        if self._wants_prompt_rows:
            self._prompt_rows.update((row.position, row) for row in rows)

    def take_tokens(self, token_ids: Sequence[int], rows: Sequence[LogprobRow]) -> None:
        if self.ended or not token_ids:
            return
        self._take_prompt_logprobs()
        update = self._text.push(token_ids)
        self._accept(token_ids[: update.accepted], rows)
        self.pending.add_text(update.text)
        self._timing.tokens(update.accepted, time.perf_counter())
        self._heed(update)
        self._num_losses = self._num_moves = self._num_duplicates = 0
        self._changed()

    def take_finished(self, finished: Finished) -> None:
        self._seat = None
        if self.ended:
            return
        reason = _REASONS.get(finished.cause)
        if finished.cause == FinishCause.STOP_TOKEN and self._stop_token_id is None:
            reason = None
        if finished.cause == FinishCause.LENGTH and self._max_tokens > 0 and not self._accepted:
            reason = None
        if reason is None:
            self.fail(internal())
            return
        self._take_prompt_logprobs()
        self._finish(reason, scheduler=finished)

    def take_rejected(self, rejected: Rejected) -> None:
        seat, self._seat = self._seat, None
        self._attempt = max(self._attempt, rejected.attempt)
        if self.ended:
            return
        self._resubmitted = self._resubmitted or bool(self._accepted)
        if rejected.reason in _ELSEWHERE and seat and self._num_moves < _MAX_MOVES:
            self._num_moves += 1
            if self._fleet.place_elsewhere(self, seat[0]):
                return
        again = self._resubmitted or self._request.resume_ids is not None
        if rejected.reason == RejectReason.DUPLICATE_ID and again and self._num_duplicates < _MAX_DUPLICATE_RETRIES:
            self._num_duplicates += 1
            self._retry = asyncio.get_running_loop().call_later(_DUPLICATE_PAUSE_S, self._fleet.place, self)
            return
        self.fail(refusal_of(rejected))

    def lost(self) -> None:
        """The scheduler, or the stream to it, is gone: what is accepted stays, the rest is computed elsewhere or later."""
        self._seat = None
        if self.ended or self._finish_if_complete():
            return
        if self._num_losses >= MAX_LOSSES_WITHOUT_PROGRESS:
            message = "the scheduler was lost repeatedly before the answer grew; send the request again"
            self.fail(unavailable(message, "SCHEDULER_LOST", 1.0))
            return
        self._num_losses += 1
        self._resubmitted = True
        self._fleet.place(self)

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
        if self._retry is not None:
            self._retry.cancel()
        if self._seat is not None:
            link, handle = self._seat
            self._seat = None
            link.cancel(handle)

    def _accept(self, token_ids: Sequence[int], rows: Sequence[LogprobRow]) -> None:
        """Makes `token_ids` part of the answer and of the pending delta."""
        by_position = {row.position: row for row in rows}
        for token_id in token_ids:
            row = by_position.get(len(self._chain) + len(self._accepted))
            self._accepted.append(token_id)
            logprobs = _logprobs(token_id, row) if self._request.sampling.logprobs >= 0 else None
            self.pending.add_token(token_id, logprobs)

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

    def _sampling(self) -> Sampling:
        if self._wants_prompt_rows:
            return self._request.sampling
        return dataclasses.replace(self._request.sampling, prompt_logprobs=-1)

    def _take_prompt_logprobs(self) -> None:
        """Makes the prompt's rows, complete by now, part of the first delta."""
        if not self._wants_prompt_rows:
            return
        self._wants_prompt_rows = False
        rows, self._prompt_rows = self._prompt_rows, {}
        self.pending.add_prompt_logprobs(
            _logprobs(token_id, rows.get(at)) for at, token_id in enumerate(self._chain.token_ids.tolist())
        )

    def _finish_if_complete(self) -> bool:
        """Ends an answer whose last word was lost with its scheduler, or that a client resumes at its end."""
        if self._stop_token_id is not None:
            self._finish(api.FINISH_REASON_STOP_TOKEN)
        elif self._accepted and len(self._accepted) >= self._max_tokens:
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
            index=self.index,
            reason=reason,
            stop_token_id=self._stop_token_id if reason == api.FINISH_REASON_STOP_TOKEN else None,
            stop_string=stop_string,
            usage=api.Usage(
                prompt_tokens=len(self._chain), cached_tokens=cached, completion_tokens=len(self._accepted)
            ),
            bill=bill_to_proto(scheduler.bill) if scheduler else None,
            timings=timings,
        )
        self._changed()


def _logprobs(token_id: int, row: LogprobRow | None) -> api.TokenLogprobs:
    return row.to_proto(token_id) if row else api.TokenLogprobs(token_id=token_id)
