"""Explain: why a request is where it is, for the person who waits for it."""

from services.scheduler.core.lifecycle import Lifecycle
from services.scheduler.core.planner import Planner
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.session import Session
from services.wire.scheduling import SequenceState, SequenceView


def view(sequence: Sequence, lifecycle: Lifecycle, planner: Planner | None, estimated_wait_us: int) -> SequenceView:
    """`planner` is None while there is no executor; `estimated_wait_us` is the queue model's word for its place."""
    if sequence.is_running and lifecycle.session:
        return _running(sequence, lifecycle.session)
    session = lifecycle.session
    return SequenceView(
        answer_index=sequence.submit.answer_index,
        state=SequenceState.PREEMPTED if sequence.was_preempted else SequenceState.WAITING,
        queue_position=lifecycle.queue.position(sequence),
        blocks_needed=session.kv.blocks_for(sequence.num_stored) if session else 0,
        blocks_free=session.kv.pool.num_idle if session else 0,
        waiting_for=_reason(sequence, lifecycle, planner),
        completion_tokens=sequence.num_stored - sequence.submit.prompt_length,
        estimated_start_us=estimated_wait_us if session else -1,
    )


def _running(sequence: Sequence, session: Session) -> SequenceView:
    running = session.running
    known, answered = running.known(sequence), running.answered(sequence)
    is_prefilling = answered < sequence.admitted_length
    return SequenceView(
        answer_index=sequence.submit.answer_index,
        state=SequenceState.PREFILLING if is_prefilling else SequenceState.DECODING,
        blocks_held=len(sequence.table),
        blocks_needed=running.final_blocks(sequence) - len(sequence.table),
        blocks_free=session.kv.pool.num_idle,
        computed_tokens=answered,
        completion_tokens=known - sequence.submit.prompt_length,
    )


def _reason(sequence: Sequence, lifecycle: Lifecycle, planner: Planner | None) -> str:
    """One of the words that `ExplainResponse.Answer.waiting_for` lists."""
    session = lifecycle.session
    if session is None or planner is None:
        return "executor"
    if not lifecycle.quotas.can_charge(sequence, session.running.final_blocks(sequence)):
        return "quota"
    if planner.is_held_for_another(sequence):
        return "quarantine"
    head = lifecycle.queue.head
    if head is not None and head is not sequence:
        return "its_turn"
    if session.running.is_full:
        return "a_slot"
    if planner.is_blocked(sequence):
        return "kv_blocks"
    return "next_step"
