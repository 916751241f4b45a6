"""Explain: why a request is where it is, for the person who waits for it."""

from services.scheduler.core.lifecycle import Lifecycle
from services.scheduler.core.planner import Planner
from services.scheduler.core.progress import Progress
from services.scheduler.core.sequence import Sequence
from services.scheduler.core.session import Session
from services.wire.scheduling import SequenceState, SequenceView

_UNFORESEEABLE = {"executor", "quota", "quarantine"}


def view(sequence: Sequence, lifecycle: Lifecycle, planner: Planner | None, progress: Progress) -> SequenceView:
    """`planner` is None while there is no executor."""
    if sequence.is_running and lifecycle.session:
        return _running(sequence, lifecycle.session)
    session = lifecycle.session
    waiting_for = _reason(sequence, lifecycle, planner)
    return SequenceView(
        answer_index=sequence.submit.answer_index,
        state=SequenceState.PREEMPTED if sequence.was_preempted else SequenceState.WAITING,
        queue_position=lifecycle.queue.position(sequence),
        blocks_needed=session.kv.blocks_for(sequence.num_stored) if session else 0,
        blocks_free=session.kv.pool.num_idle if session else 0,
        waiting_for=waiting_for,
        completion_tokens=sequence.num_stored - sequence.submit.prompt_length,
        estimated_start_us=_start_us(sequence, waiting_for, lifecycle, planner, progress),
    )


def _start_us(
    sequence: Sequence, waiting_for: str, lifecycle: Lifecycle, planner: Planner | None, progress: Progress
) -> int:
    """When it may start: when enough of the running have ended, and the prompts before it are computed. -1: unknown.

    Each that is before it takes a slot of its own. How many have to end for blocks is not known: one is assumed.
    """
    session, head = lifecycle.session, lifecycle.queue.head
    if session is None or planner is None or waiting_for in _UNFORESEEABLE:
        return -1
    num_ends = planner.batching.num_ends_before(sequence)
    if head is not None and planner.is_blocked(head):
        num_ends = max(1, num_ends)
    turnover_us = progress.turnover_us(session.running, num_ends)
    return turnover_us + progress.wait_us(lifecycle.queue, before=sequence) if turnover_us >= 0 else -1


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
    head = planner.batching.head or lifecycle.queue.head
    if head is not None and head is not sequence and not planner.is_blocked(sequence):
        return "its_turn"
    if not planner.batching.is_open:
        return "a_slot"
    return "kv_blocks" if planner.is_blocked(sequence) else "next_step"
