"""The planner: who computes how many tokens in the next step, and in which blocks."""

from collections.abc import Collection

from services.scheduler.core import preemption
from services.scheduler.core.batching import Batching, batching_of
from services.scheduler.core.blocked import Blocked
from services.scheduler.core.draft import Draft
from services.scheduler.core.flight import Chunk
from services.scheduler.core.pace import Pace
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.quota import Quotas
from services.scheduler.core.sequence import Sequence, State
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from services.scheduler.core.spare import Spare
from services.scheduler.core.step_cost import StepCost


def planner_of(
    settings: CoreSettings, session: Session, queue: WaitingQueue, quotas: Quotas, cost: StepCost
) -> "Planner":
    """What the settings ask for, for one executor session."""
    running = session.running
    return Planner(
        session,
        queue,
        quotas,
        batching_of(settings, session, queue),
        pace=Pace(running, cost, token_budget=session.token_budget, target_us=settings.tbt_target_us),
        spare=Spare(running, queue, cost),
        blocked=Blocked(queue, session.kv.pool, pass_us=settings.pass_blocked_us),
    )


class Planner:
    """Plans the steps of one executor session.

    There are no phases: decodes come first, and what is left of the token budget goes to the known but uncomputed tokens
    of the others in the order of the queue. At most one sequence is therefore partly prefilled, and one that shares its
    beginning is admitted only when that is planned: a cold burst with a common prefix computes it once at any budget.
    """

    def __init__(
        self,
        session: Session,
        queue: WaitingQueue,
        quotas: Quotas,
        batching: Batching,
        *,
        pace: Pace,
        spare: Spare,
        blocked: Blocked,
    ) -> None:
        self._session = session
        self._running = session.running
        self._kv = session.kv
        self._queue = queue
        self._quotas = quotas
        self.batching = batching
        self._pace = pace
        self._spare = spare
        self._blocked = blocked

    def begin_step(self, at_us: int) -> None:
        """A step is about to be planned; as often as there is an occasion."""
        self.batching.begin_step()
        self._spare.begin_step(at_us)
        self._blocked.begin_step(at_us)

    def draft(self, at_us: int) -> Draft | None:
        """The next step, which has begun; None when there is nothing to compute."""
        if self._session.flights and self._quarantined():
            return None  # it runs alone: not even beside an unanswered plan of others
        draft = Draft(at_us, self._session.token_budget)
        choose = self._spare.choose if self._spare.is_there else None
        if self._running.num_spare:
            self._make_room(draft)
        seat_for_prefill = self.has_prefill
        while True:
            alone = self._alone(draft)
            self._running.choose_decodes(draft.left, seat_for_prefill=seat_for_prefill, alone=alone, choose=choose)
            self._grow(draft)
            draft.num_decodes, draft.decode_context = self._running.recount(), self._running.decode_context
            if seat_for_prefill:
                draft.tbt_target_us = self._pace.target_us(draft.num_decodes)
                draft.budget = self._pace.budget(draft.num_decodes)
            self._prefill(draft, alone)
            if draft.num_tokens or (alone and alone.is_running) or not self._running.has_ready:
                draft.num_held = self.batching.num_held
                return draft if draft.num_tokens else None
            # Nobody took the seat for prefill, or those in turn have given way: the next ones in turn decode.

    def preempt(self, sequence: Sequence, at_us: int) -> None:
        """Back to the front of the queue, with all its tokens."""
        self._session.vacate(sequence, State.WAITING, at_us)
        sequence.was_preempted = True
        self._queue.rejoin(sequence)

    @property
    def has_prefill(self) -> bool:
        """Whether the next step may compute tokens of prompts, as many as the budget leaves."""
        return self._running.has_prefilling or self._can_try_admission()

    @property
    def has_room(self) -> bool:
        """Whether nobody has to give way for those who need a block for their next token."""
        return self._kv.pool.can_take(self._running.num_at_event)

    def is_blocked(self, sequence: Sequence) -> bool:
        """Whether nothing has been released since it did not fit."""
        return self._blocked.is_blocked(sequence)

    def is_held_for_another(self, sequence: Sequence) -> bool:
        """Whether it waits because another one has to run alone."""
        alone = self._quarantined()
        return alone is not None and alone is not sequence

    def check_integrity(self) -> None:
        self.batching.check_integrity()

    def _quarantined(self) -> Sequence | None:
        """The one that has to run alone, if there is one and it is its turn."""
        for sequence in self._running.struck.values():
            if sequence.is_quarantined:
                return sequence
        head = self.batching.head
        return head if head and head.is_quarantined else None

    def _alone(self, draft: Draft) -> Sequence | None:
        sequence = self._quarantined()
        if sequence is None or sequence.is_running:
            return sequence
        may = self.batching.is_open and self._quotas.can_charge(sequence, self._running.final_blocks(sequence))
        return sequence if may and self._admit(draft, sequence) else None

    def _grow(self, draft: Draft) -> None:
        """A block for each that decodes and has filled its last one; who would give way first comes last."""
        due = self._running.due()
        if not due.size:
            return
        policy = self._queue.policy
        sequences = [sequence for slot in due.tolist() if (sequence := self._running.sequences[slot])]
        if not self._kv.pool.can_take(len(sequences)):
            policy.settle(self._running)
            sequences.sort(key=lambda sequence: preemption.standing(sequence, policy))
        for sequence in sequences:
            while sequence.is_running and not self._kv.pool.can_take(1):
                self.preempt(preemption.victim(self._running, policy), draft.at_us)
                draft.num_preempted += 1
            if sequence.is_running:
                self._grow_one(draft, sequence)

    def _grow_one(self, draft: Draft, sequence: Sequence) -> None:
        self._running.store_tail(sequence)
        self._kv.publish(sequence, min(self._running.computed(sequence), sequence.num_stored))
        sequence.account.hold_blocks(len(sequence.table), draft.at_us)
        draft.append_slots.append(sequence.slot)
        draft.append_blocks.append(self._kv.grow(sequence))
        self._running.grew(sequence)

    def _make_room(self, draft: Draft) -> None:
        """Spare work gives its slots and blocks to whoever else is next, where that is enough."""
        running, head = self._running, self._next_urgent()
        if head is None or not self._can_make_room(head):
            return
        while running.num_spare and (running.is_full or not self._fits(head, self._kv.match(head))):
            self.preempt(preemption.victim(running, self._queue.policy), draft.at_us)
            draft.num_preempted += 1

    def _next_urgent(self) -> Sequence | None:
        """The first that is no spare work, and whose tenant is not at its quota."""
        tenants_at_quota: set[str] = set()
        while (head := self.batching.first(tenants_at_quota)) and not head.is_spare:
            if self._quotas.can_charge(head, self._running.final_blocks(head)):
                return head
            tenants_at_quota.add(head.submit.tenant)
        return None

    def _can_make_room(self, sequence: Sequence) -> bool:
        """Whether it has a slot and blocks once all the spare work that runs has given way."""
        if sequence.is_spare or not self._running.num_spare:
            return False
        spare = [each for each in self._running if each.is_spare]
        return self._fits(sequence, self._kv.match(sequence), without=spare)

    def _prefill(self, draft: Draft, alone: Sequence | None) -> None:
        passed: set[str] = set()
        for is_spare in (False, True) if self._spare.is_there else (False,):
            for sequence in self._running.prefilling if self._running.has_prefilling else ():
                if sequence.is_spare is is_spare and (alone is None or sequence is alone):
                    self._chunk(draft, sequence)
            if alone is None and self._can_try_admission():
                self._queue.policy.settle(self._running)
                self._admit_waiting(draft, passed, is_spare=is_spare)

    def _admit_waiting(self, draft: Draft, passed: set[str], *, is_spare: bool) -> None:
        while self._room(draft, is_spare=is_spare) and self._can_try_admission():
            waiting = self.batching.first(passed)
            if waiting is None or waiting.is_quarantined or waiting.is_spare is not is_spare:
                return
            can_charge = self._quotas.can_charge(waiting, self._running.final_blocks(waiting))
            if not can_charge or not self._blocked.may_pass(waiting):
                passed.add(waiting.submit.tenant)  # the others need not wait for it
            elif self._admit(draft, waiting):
                self._chunk(draft, waiting)
            elif self._can_make_room(waiting) or not self._blocked.may_be_passed(waiting, draft.at_us):
                return

    def _room(self, draft: Draft, *, is_spare: bool) -> int:
        """Tokens of prompts that the step still has room for."""
        return min(draft.left, self._spare.left) if is_spare else draft.left

    def _can_try_admission(self) -> bool:
        head = self.batching.head
        if head is None or not self.batching.is_open or self.is_blocked(head):
            return False
        return self._spare.may_enter or not head.is_spare

    def _fits(self, sequence: Sequence, hits: list[int], without: Collection[Sequence] = ()) -> bool:
        """Whether it has room, with what must stay idle for the others, when those of `without` have left."""
        num_blocks = self._kv.blocks_for(sequence.num_stored)
        headroom = preemption.headroom_blocks(sequence, self._running, num_blocks, without)
        return self._kv.can_place(sequence, hits, headroom, without)

    def _admit(self, draft: Draft, sequence: Sequence) -> bool:
        """Whether it fits; then it has a slot and blocks."""
        hits = self._kv.match(sequence)
        if not self._fits(sequence, hits):
            self._blocked.note(sequence, draft.at_us)
            return False
        sequence.blocked_us = -1
        self._queue.leave(sequence)
        hit_tokens = len(hits) * self._kv.block_size
        draft.prefix_query_tokens += sequence.num_stored
        draft.prefix_hit_tokens += hit_tokens
        if sequence.account.admitted_us < 0:
            sequence.account.admitted_us = draft.at_us
            sequence.account.cached_tokens = hit_tokens
            draft.newcomers.append(sequence)
            self._queue.policy.admit(sequence, sequence.num_stored - hit_tokens)
        draft.admitted.append(self._session.occupy(sequence, hits, draft.at_us))
        return True

    def _chunk(self, draft: Draft, sequence: Sequence) -> None:
        """As many of its uncomputed tokens as the step has room for."""
        start = self._running.computed(sequence)
        end = min(sequence.admitted_length, start + self._room(draft, is_spare=sequence.is_spare))
        if end <= start:
            return
        self._spare.left -= (end - start) * sequence.is_spare
        draft.chunks.append(Chunk(sequence, sequence.order, sequence.slot, start, end))
        draft.num_prefill_tokens += end - start
        sequence.account.compute(start, end, mark=sequence.mark, prompt_length=sequence.submit.prompt_length)
        self._kv.publish(sequence, end)
        if self._running.compute(sequence, end) and sequence.admitted_length < sequence.limit:
            draft.drawing.append(sequence.slot)
