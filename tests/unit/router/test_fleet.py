"""The fleet: where a sequence goes, and how long it waits. Over real streams: test_router_faults."""

import asyncio
import dataclasses

import grpc

from services.router.fleet import Fleet, least_loaded
from services.router.served_model import ServedModel
from services.router.settings import RouterSettings
from services.wire.execution import Sampling
from services.wire.message import int32_column
from services.wire.scheduling import Load, SchedulerHello, Submit
from tests.support.fake_model import FINGERPRINT, fake_card

READY = SchedulerHello(executor_ready=True, block_size=16, max_request_tokens=100)


class Sequence:
    """Remembers what the fleet does to it."""

    def __init__(self, fingerprint: str = FINGERPRINT) -> None:
        self.fingerprint = fingerprint
        self.seat = None
        self.refusal = None

    def submission(self, handle, hello):
        one = int32_column([1])
        return Submit(
            handle=handle, request_id="r", token_ids=one, prompt_length=1, chain_root=bytes(16), sampling=Sampling()
        )

    def seated(self, link, handle) -> None:
        self.seat = link, handle

    def fail(self, refusal) -> None:
        self.refusal = refusal


def fleet_of(count: int, **settings) -> Fleet:
    return Fleet(RouterSettings(schedulers=tuple(f"127.0.0.1:{k + 1}" for k in range(count)), **settings))


def attach(fleet: Fleet, at: int, *, fingerprint: str = FINGERPRINT, hello: SchedulerHello = READY, load=None) -> None:
    """Plays a scheduler that attaches."""
    link = fleet.links[at]
    link.hello, link.load = hello, load or Load()
    link.model = ServedModel(fake_card(fingerprint=fingerprint), text=None)
    fleet._link_changed(link)


async def test_a_sequence_waits_for_its_scheduler():
    """Without a scheduler a sequence waits; the first that serves its model gets it."""
    fleet = fleet_of(1)
    sequence = Sequence()
    fleet.place(sequence)
    assert fleet.num_waiting == 1
    attach(fleet, 0)
    assert fleet.num_waiting == 0
    assert sequence.seat == (fleet.links[0], 1)


async def test_a_sequence_waits_no_longer_than_the_grace():
    """After the grace it fails UNAVAILABLE and is forgotten."""
    fleet = fleet_of(1, scheduler_grace_s=0.05)
    sequence = Sequence()
    fleet.place(sequence)
    await asyncio.sleep(0.2)
    assert sequence.refusal.code == grpc.StatusCode.UNAVAILABLE
    assert fleet.num_waiting == 0
    attach(fleet, 0)
    assert sequence.seat is None


async def test_a_forgotten_sequence_is_not_placed():
    """A sequence whose client is gone is taken off the waiting ones."""
    fleet = fleet_of(1)
    sequence = Sequence()
    fleet.place(sequence)
    fleet.forget(sequence)
    attach(fleet, 0)
    assert sequence.seat is None
    assert sequence.refusal is None


async def test_the_least_busy_scheduler_with_an_executor_is_chosen():
    """Fewest sequences wins, but one without its executor only where there is no other; a draining one never."""
    fleet = fleet_of(3)
    attach(fleet, 0, load=Load(running=9))
    attach(fleet, 1, load=Load(running=5, waiting=2))
    attach(fleet, 2, hello=SchedulerHello(executor_ready=False, block_size=16))
    assert least_loaded(fleet.links) is fleet.links[1]
    fleet.links[1].load = Load(draining=True)
    sequence = Sequence()
    fleet.place(sequence)
    assert sequence.seat[0] is fleet.links[0]
    assert fleet.place_elsewhere(sequence, fleet.links[0])
    assert sequence.seat[0] is fleet.links[2]


async def test_own_sequences_count_before_the_scheduler_reports_them():
    """A burst is spread although no load has been heard since."""
    fleet = fleet_of(2)
    attach(fleet, 0)
    attach(fleet, 1)
    for _ in range(10):
        fleet.place(Sequence())
    assert [link.num_live for link in fleet.links] == [5, 5]


async def test_a_sequence_of_a_model_that_is_gone_fails():
    """It fails when every scheduler serves another model, and waits while one is away that may come back with it."""
    fleet = fleet_of(2)
    attach(fleet, 0, fingerprint="beef")
    sequence = Sequence()
    fleet.place(sequence)
    assert (fleet.num_waiting, sequence.refusal) == (1, None)
    attach(fleet, 1, fingerprint="beef")
    assert sequence.refusal.code == grpc.StatusCode.UNAVAILABLE
    assert fleet.num_waiting == 0
    late = Sequence()
    fleet.place(late)
    assert late.refusal is not None


async def test_a_sequence_that_cannot_be_sent_fails_alone():
    """A field that does not fit into the message is its request's failure; the others that waited are sent."""

    class TooLong(Sequence):
        def submission(self, handle, hello):
            return dataclasses.replace(super().submission(handle, hello), time_left_us=2**70)

    fleet = fleet_of(1)
    bad, good = TooLong(), Sequence()
    for sequence in (bad, good):
        fleet.place(sequence)
    attach(fleet, 0)
    assert (bad.seat, bad.refusal.code) == (None, grpc.StatusCode.INTERNAL)
    assert good.seat is not None
    assert (fleet.num_waiting, fleet.links[0].num_live, len(fleet.links[0]._outbox)) == (0, 1, 1)
