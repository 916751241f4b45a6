from collections import Counter

from services.scheduler.core.latency_class import LatencyClass
from services.scheduler.core.planner import planner_of
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.quota import Quotas
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from services.scheduler.core.step_cost import StepCost
from tests.unit.scheduler.core.helpers import capacity, sequence


class Desk:
    """A planner with its session and queue; a draft counts as sent and answered with no tokens."""

    def __init__(self, *, num_blocks: int = 64, **settings: int | str) -> None:
        self.quotas = Quotas()
        chosen = CoreSettings(**settings)
        self.session = Session(1, capacity(num_blocks=num_blocks), chosen, self.quotas)
        self.queue = WaitingQueue(max_requests=99, max_tokens=10**6)
        self.cost = StepCost()
        self.planner = planner_of(chosen, self.session, self.queue, self.quotas, self.cost)

    def join(self, serial: int, *, is_spare: bool = False, **fields):
        made = sequence(serial, **fields)
        made.latency_class = LatencyClass("batch", is_spare=True) if is_spare else made.latency_class
        self.queue.join(made)
        return made

    def chunks(self) -> list[tuple[int, int, int]]:
        self.planner.begin_step(0)
        draft = self.planner.draft(0)
        self.session.running.tell()
        self.session.running.advance()
        return [(chunk.sequence.serial, chunk.start, chunk.end) for chunk in draft.chunks] if draft else []


def test_the_budget_goes_to_prompts_in_the_order_of_the_queue():
    """A prompt that is cut goes on first, then the next ones."""
    desk = Desk(token_budget=30)
    for serial in range(3):
        desk.join(serial, prompt=20, max_tokens=1)
    assert desk.chunks() == [(0, 0, 20), (1, 0, 10)]
    assert desk.chunks() == [(1, 10, 20), (2, 0, 20)]
    assert desk.chunks() == []


def test_a_request_of_the_same_plan_uses_blocks_that_another_fills():
    """The second prompt's full blocks are hits before anything is computed."""
    desk = Desk(token_budget=100)
    desk.join(1, prompt=[7] * 40)
    desk.join(2, prompt=[7] * 40)
    assert desk.chunks() == [(1, 0, 40), (2, 32, 40)]


def test_one_that_does_not_fit_is_not_tried_again_before_something_is_released():
    """A blocked head costs nothing per step."""
    desk = Desk(num_blocks=6)
    first, second = desk.join(1, prompt=64, max_tokens=1), desk.join(2, prompt=64, max_tokens=1)
    assert desk.chunks() == [(1, 0, 64)]
    assert desk.planner.is_blocked(second)
    desk.planner.preempt(first, 0)
    assert not desk.planner.is_blocked(second)


def test_a_preempted_sequence_stands_at_the_front_with_nothing_held():
    """It has all its tokens and neither slot nor block nor charge."""
    desk = Desk()
    first = desk.join(1, prompt=40)
    desk.chunks()
    second = desk.join(2, prompt=40)
    desk.planner.preempt(first, 0)
    assert list(desk.queue) == [first, second]
    assert (first.num_stored, first.table, first.slot) == (40, [], -1)
    desk.session.check_integrity()
    desk.quotas.check_integrity(Counter(), Counter())


def test_once_a_step_has_begun_it_is_known_whether_prompts_may_be_in_it():
    """A static batch is chosen then: before, nobody was in turn."""
    desk = Desk(batching="static")
    desk.join(1)
    assert not desk.planner.has_prefill
    desk.planner.begin_step(0)
    assert desk.planner.has_prefill


def test_a_plan_is_only_made_of_what_there_is_to_compute():
    """With nothing waiting and nobody running there is no draft."""
    assert Desk().planner.draft(0) is None


def test_a_prompt_beside_decodes_gets_what_the_target_leaves():
    """At 100 us a token and a target of 5 ms, at most 49 tokens beside one decode; alone it has the whole budget."""
    desk = Desk(token_budget=300, tbt_target_us=5000)
    for num_tokens in (1, 10, 200):
        desk.cost.observe(num_tokens, 100, 100 * num_tokens, predicted_us=0)
    desk.join(1, prompt=300, max_tokens=20)
    assert desk.chunks() == [(1, 0, 300)]
    desk.join(2, prompt=200, max_tokens=20)
    desk.planner.begin_step(0)
    draft = desk.planner.draft(0)
    assert (draft.num_decodes, draft.tbt_target_us) == (1, 5000)
    assert 40 <= draft.num_prefill_tokens <= 49
    assert draft.num_context_tokens == 301 + draft.num_prefill_tokens


def test_spare_work_makes_room_for_who_else_is_next():
    """Of two that fill the pool it gives way, and the newcomer starts in the same step."""
    desk = Desk(num_blocks=8)
    for serial in (1, 2):
        desk.join(serial, prompt=60, max_tokens=4, is_spare=True)
    assert [serial for serial, _, _ in desk.chunks()] == [1, 2]
    desk.join(3, prompt=40, max_tokens=4)
    assert desk.chunks() == [(3, 0, 40)]
    assert [one.serial for one in desk.queue] == [2]


def test_spare_work_makes_room_behind_a_tenant_at_its_quota():
    """The first that may be admitted has it, though another stands before it."""
    desk = Desk(max_slots=4)
    desk.join(1, prompt=16, tenant="a", tenant_max_blocks=2)
    desk.chunks()
    for serial in (2, 3, 4):
        desk.join(serial, prompt=16, is_spare=True, tenant="spare")
    assert len(desk.chunks()) == 3
    desk.join(5, prompt=16, tenant="a", tenant_max_blocks=2)
    desk.join(6, prompt=16, tenant="b")
    assert desk.chunks() == [(6, 0, 16)]
    assert [one.serial for one in desk.queue] == [5, 4]


def test_spare_work_that_cannot_make_room_goes_on():
    """All its blocks and the idle ones are too few: it keeps them, and a short prompt passes."""
    desk = Desk(num_blocks=12)
    desk.join(1, prompt=64, max_tokens=30)
    desk.join(2, prompt=30, max_tokens=2, is_spare=True)
    desk.chunks()
    desk.join(3, prompt=110, max_tokens=1)
    desk.join(4, prompt=10, max_tokens=1)
    assert desk.chunks() == [(4, 0, 10)]
    assert desk.session.running.num_spare == 1
    assert [one.serial for one in desk.queue] == [3]


def test_where_spare_work_can_make_room_nobody_passes():
    """The second in turn has that room in the next step."""
    desk = Desk(num_blocks=12)
    desk.join(1, prompt=60, max_tokens=4, is_spare=True)
    desk.join(2, prompt=60, max_tokens=4, is_spare=True)
    desk.chunks()
    for serial, prompt in ((3, 20), (4, 40), (5, 10)):
        desk.join(serial, prompt=prompt, max_tokens=1)
    assert desk.chunks() == [(3, 0, 20)]
    assert [one.serial for one in desk.queue] == [4, 5]
    assert desk.chunks() == [(4, 0, 40), (5, 0, 10)]
    assert [one.serial for one in desk.queue] == [2]


def test_a_short_prompt_passes_a_long_one_that_does_not_fit():
    """In the same step; the long one stays the first of the queue."""
    desk = Desk(num_blocks=6)
    desk.join(1, prompt=60, max_tokens=5)
    desk.chunks()
    desk.join(2, prompt=64, max_tokens=1)
    desk.join(3, prompt=10, max_tokens=1)
    assert desk.chunks() == [(3, 0, 10)]
    assert [one.serial for one in desk.queue] == [2]
    assert desk.chunks() == []
