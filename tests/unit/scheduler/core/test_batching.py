from services.scheduler.core.batching import Batching, ContinuousBatching, StaticBatching, batching_of
from services.scheduler.core.queue import WaitingQueue
from services.scheduler.core.quota import Quotas
from services.scheduler.core.sequence import Sequence, State
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from tests.unit.scheduler.core.helpers import capacity, sequence


class Hall:
    """A session with three slots, a queue, and the batching under test between them."""

    def __init__(self, mode: str = "static", *, num_blocks: int = 64) -> None:
        settings = CoreSettings(max_slots=3, batching=mode)
        self.session = Session(1, capacity(num_blocks=num_blocks), settings, Quotas())
        self.queue = WaitingQueue(max_requests=99, max_tokens=10**6)
        self.batching: Batching = batching_of(settings, self.session, self.queue)

    def join(self, serial: int, **fields) -> Sequence:
        made = sequence(serial, **fields)
        self.queue.join(made)
        return made

    def admit_all(self) -> list[int]:
        """All that may be admitted now."""
        self.batching.begin_step()
        admitted = []
        while self.batching.is_open and (waiting := self.batching.head):
            self.queue.leave(waiting)
            self.session.occupy(waiting, [], 0)
            admitted.append(waiting.serial)
        self.batching.check_integrity()
        return admitted

    def end(self, *sequences: Sequence) -> None:
        for each in sequences:
            self.session.vacate(each, State.ENDED, 0)


def test_the_setting_names_the_batching():
    """One object for each word."""
    assert isinstance(Hall("static").batching, StaticBatching)
    assert isinstance(Hall("continuous").batching, ContinuousBatching)


def test_an_empty_slot_is_given_out_at_once_in_continuous_batching():
    """And only the slots in use are held."""
    hall = Hall("continuous")
    waiting = [hall.join(serial) for serial in range(5)]
    assert hall.admit_all() == [0, 1, 2]
    assert hall.batching.num_held == 3
    hall.end(waiting[1])
    assert hall.batching.num_held == 2
    assert hall.admit_all() == [3]


def test_nobody_joins_a_static_batch_before_all_its_members_have_ended():
    """The slots of those that have ended are held until then, and released together."""
    hall = Hall()
    waiting = [hall.join(serial) for serial in range(5)]
    assert hall.admit_all() == [0, 1, 2]
    hall.end(waiting[0], waiting[2])
    assert hall.admit_all() == []
    assert hall.batching.num_held == 3
    hall.end(waiting[1])
    assert hall.batching.num_held == 0
    assert hall.admit_all() == [3, 4]
    assert hall.batching.num_held == 2


def test_one_that_comes_while_the_batch_is_admitted_is_not_of_it():
    """The members are chosen once, although a step may have budget for the first of them only."""
    hall = Hall()
    hall.join(1)
    hall.batching.begin_step()
    hall.join(2)
    assert hall.admit_all() == [1]


def test_a_static_batch_is_what_the_pool_holds_at_the_limits():
    """20 + 60 tokens need 5 blocks each: of 12 blocks two have room, though all three prompts would fit."""
    hall = Hall(num_blocks=12)
    for serial in range(3):
        hall.join(serial, prompt=20, max_tokens=60)
    assert hall.admit_all() == [0, 1]


def test_a_tenant_at_its_quota_does_not_hold_up_the_others():
    """Its second request, and only that, is left for the next batch."""
    hall = Hall()
    for serial, tenant in enumerate("aab"):
        hall.join(serial, tenant=tenant, tenant_max_blocks=3)
    assert hall.admit_all() == [0, 2]
    assert hall.batching.first(set()) is None


def test_a_member_that_ends_before_it_is_admitted_is_passed_over():
    """A cancelled one holds up neither the others nor the next batch."""
    hall = Hall()
    waiting = [hall.join(serial) for serial in range(4)]
    hall.batching.begin_step()
    hall.queue.leave(waiting[0])
    waiting[0].move(State.ENDED)
    assert hall.admit_all() == [1, 2]
    hall.end(waiting[1], waiting[2])
    assert hall.admit_all() == [3]


def test_a_member_that_lost_its_slot_comes_back_into_its_batch():
    """It has not ended, so no next batch can begin before it has."""
    hall = Hall()
    waiting = [hall.join(serial) for serial in range(4)]
    hall.admit_all()
    hall.session.vacate(waiting[1], State.WAITING, 0)
    hall.queue.rejoin(waiting[1])
    hall.end(waiting[0], waiting[2])
    assert hall.admit_all() == [1]


def test_it_is_told_how_many_have_to_end_first():
    """In continuous batching one for each that is before it; in static all, and beyond the next batch nobody knows."""
    hall = Hall("continuous")
    waiting = [hall.join(serial) for serial in range(8)]
    hall.admit_all()
    assert [hall.batching.num_ends_before(each) for each in waiting[3:5]] == [1, 2]
    hall = Hall()
    waiting = [hall.join(serial) for serial in range(8)]
    hall.batching.begin_step()
    assert hall.batching.num_ends_before(waiting[1]) == 0
    hall.admit_all()
    hall.end(waiting[0])
    assert [hall.batching.num_ends_before(each) for each in waiting[3:7]] == [2, 2, 2, 3]
