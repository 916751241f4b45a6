"""The steps of a session: drafts become plans in flight, results become tokens, bills and last words."""

import numpy as np

from services.scheduler.core import strikes
from services.scheduler.core.answer import Answer, AnswerReader
from services.scheduler.core.draft import Draft
from services.scheduler.core.flight import Flight
from services.scheduler.core.lifecycle import FAILED, Lifecycle
from services.scheduler.core.progress import Progress
from services.scheduler.core.session import Session
from services.wire.execution import StepPlan, StepResult
from services.wire.message import Int32Column
from services.wire.scheduling import FinishCause, StepRecord


class Steps:
    """Plans sent and results read, in order."""

    def __init__(self, session: Session, lifecycle: Lifecycle, progress: Progress) -> None:
        self._session = session
        self._running = session.running
        self._lifecycle = lifecycle
        self._progress = progress
        self._reader = AnswerReader(session.running, session.capacity.card.vocab_size)

    # ---- out

    def send(self, draft: Draft) -> tuple[StepPlan, StepRecord]:
        """The plan must be sent to the executor now: it is in flight."""
        session, running = self._session, self._running
        session.num_plans += 1
        self._lifecycle.num_steps += 1
        predicted_us = self._progress.cost.predict_us(draft.num_tokens, draft.num_context_tokens)
        started, paused = running.tell()
        time_limit_us = self._progress.time_limit_us(draft.num_tokens)
        plan = draft.seal(
            session.num_plans,
            released=running.take_released(),
            started=started,
            paused=paused,
            time_limit_ms=time_limit_us // 1000,
        )
        session.flights.append(self._take_off(draft, session.num_plans, predicted_us))
        running.advance()
        for sequence in draft.newcomers:
            waited_us = draft.at_us - sequence.arrived_us
            self._lifecycle.queue_time.waited(sequence.predicted_wait_us, waited_us)
        return plan, self._record(draft, predicted_us)

    def _take_off(self, draft: Draft, plan: int, predicted_us: int) -> Flight:
        running = self._running
        draws, generations = running.decoding, running.decoding_generations
        if draft.drawing:
            draws = np.concatenate((draws, np.array(draft.drawing, np.intp)))
            generations = running.columns.generation[draws]
        return Flight(
            plan=plan,
            step=self._lifecycle.num_steps,
            sent_us=draft.at_us,
            num_left=running.num_left,
            num_tokens=draft.num_tokens,
            decodes=running.decoding,
            draws=draws,
            generations=generations,
            chunks=tuple(draft.chunks),
            num_context_tokens=draft.num_context_tokens,
            predicted_us=predicted_us,
        )

    def _record(self, draft: Draft, predicted_us: int) -> StepRecord:
        life, pool, queue = self._lifecycle, self._session.kv.pool, self._lifecycle.queue
        newest = life.newest_result
        record = StepRecord(
            step=life.num_steps,
            at_us=draft.at_us,
            token_budget=draft.budget,
            decode_tokens=draft.num_decodes,
            prefill_tokens=draft.num_prefill_tokens,
            admitted=len(draft.admitted),
            finished=life.num_finished,
            preempted=draft.num_preempted,
            running=len(self._running),
            waiting=len(queue),
            waiting_tokens=queue.num_tokens,
            free_blocks=pool.num_idle - pool.num_idle_cached,
            cached_blocks=pool.num_idle_cached,
            used_blocks=pool.num_blocks - pool.num_idle,
            prefix_hit_tokens=draft.prefix_hit_tokens,
            prefix_query_tokens=draft.prefix_query_tokens,
            rejected=life.num_rejected,
            step_us=newest.step_us if newest else 0,
            forward_us=newest.forward_us if newest else 0,
            sample_us=newest.sample_us if newest else 0,
            predicted_us=predicted_us,
            prediction_error_us=self._progress.cost.error_us,
            tbt_target_us=draft.tbt_target_us,
            classes=life.attainment.take(),
            useful_slots=draft.num_decodes + len(draft.chunks),
            held_slots=draft.num_held,
        )
        life.num_finished = life.num_rejected = 0
        return record

    # ---- back

    def answer(self, result: StepResult, at_us: int) -> None:
        """Raises `ExecutorBroke`, with nothing changed, for a result that does not answer the oldest plan in flight."""
        flights = self._session.flights
        answer = self._reader.read(result, flights[0] if flights else None)
        flight = flights.popleft()
        self._lifecycle.newest_result = result
        num_ran = _num_ran(flight, result)
        self._progress.step_ended(flight, num_ran, result.step_us, at_us)
        self._bill(flight, num_ran, result.step_us)
        lengths = self._running.columns.append_tokens(answer.slots, answer.tokens)
        self._note_chunks(flight, at_us)
        self._forward(flight, answer, result)
        if self._running.struck:
            strikes.clear_grown(self._running)
        self._end(flight, answer, lengths, at_us)

    def _bill(self, flight: Flight, num_ran: int, step_us: int) -> None:
        """Shares the step's time out over the tokens that were computed."""
        columns, overhead = self._running.columns, self._lifecycle.overhead
        if not num_ran:
            overhead.add("ended", step_us * 1000)
            return
        share_ns, rest_ns = divmod(step_us * 1000, num_ran)
        overhead.add("rounding", rest_ns)
        decodes = flight.decodes
        if flight.num_left != self._running.num_left:
            decodes = decodes[columns.generation[decodes] == flight.generations[: len(decodes)]]
            num_passed_over = flight.num_tokens - num_ran
            overhead.add("ended", share_ns * (len(flight.decodes) - len(decodes) - num_passed_over))
        columns.executor_ns[decodes] += share_ns
        for chunk in flight.chunks:
            share = share_ns * (chunk.end - chunk.start)
            if chunk.is_current:
                columns.executor_ns[chunk.slot] += share
            else:
                overhead.add("ended", share)

    def _note_chunks(self, flight: Flight, at_us: int) -> None:
        for chunk in flight.chunks:
            if chunk.is_current:
                sequence = chunk.sequence
                sequence.answered = chunk.end
                if chunk.end == sequence.admitted_length and sequence.account.first_token_us < 0:
                    sequence.account.first_token_us = at_us

    def _forward(self, flight: Flight, answer: Answer, result: StepResult) -> None:
        outbox, columns = self._lifecycle.outbox, self._running.columns
        if result.logprobs is None and result.prompt_logprobs is None:
            outbox.put_tokens(flight.step, answer, columns)
        else:
            outbox.put_tokens_and_logprobs(flight.step, answer, columns, result, flight.chunks)

    def _end(self, flight: Flight, answer: Answer, lengths: Int32Column, at_us: int) -> None:
        """Those that failed, drew a stop token, or have reached their limit."""
        life, sequences = self._lifecycle, self._running.sequences
        at_limit = answer.slots[lengths >= self._running.columns.limit[answer.slots]]
        for slot in answer.failed:
            failed = sequences[slot]
            assert failed is not None
            life.reject(failed, FAILED, at_us, keep_blocks=False)
        for slot in answer.stopped:
            stopped = sequences[slot]
            if stopped is not None:
                life.finish(stopped, FinishCause.STOP_TOKEN, at_us)
        for slot in at_limit.tolist():
            sequence = sequences[slot]
            if sequence is not None:
                life.finish(sequence, FinishCause.LENGTH, at_us)
        for chunk in flight.chunks:
            if chunk.is_current and chunk.end == chunk.sequence.limit:  # max_tokens 0: the prompt was all
                life.finish(chunk.sequence, FinishCause.LENGTH, at_us)


def _num_ran(flight: Flight, result: StepResult) -> int:
    """Tokens of the flight that were computed. A slot that drew a stop token in the step before is passed over."""
    num_passed_over = len(flight.draws) - len(result.tokens) - len(result.failed)
    return flight.num_tokens - max(0, num_passed_over)
