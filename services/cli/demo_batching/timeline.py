"""The timeline of a run: who was in which slot from when to when, read out of the scheduler's event log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.cli.console import Failed
from services.scheduler.recorder import Outputs, replay
from services.wire.event_log import ExecutorDown, LogEvent, LogPlan, RoutedSubmit
from services.wire.scheduling import Finished, Rejected, StepRecord


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in one slot, in microseconds from the run's first request on."""

    slot: int
    begin_us: int
    end_us: int
    request: int | None
    """Index of the request that has the slot; None: it is held empty."""


@dataclass(slots=True)
class Timeline:
    """All that was in the slots, and what of it was of use."""

    stretches: list[Stretch] = field(default_factory=list)
    useful_slot_steps: int = 0
    held_slot_steps: int = 0

    @property
    def utilization(self) -> float:
        """Useful slot-steps of those that were held. Raises ZeroDivisionError for a run without a step."""
        return self.useful_slot_steps / self.held_slot_steps

    @property
    def num_slots(self) -> int:
        """That were ever used."""
        return max((stretch.slot + 1 for stretch in self.stretches), default=0)

    @property
    def end_us(self) -> int:
        return max((stretch.end_us for stretch in self.stretches), default=0)


def read_timeline(log: Path, requests: Mapping[str, int], gate_id: str = "") -> Timeline:
    """Replays the log. `requests`: index by request id; time begins with the first of them, or when `gate_id` has ended.

    Raises `Failed` where the log does not hold the whole run.
    """
    if log.with_name(log.name + ".1").exists():
        raise Failed("the scheduler was started again during the run: its event log is in pieces")
    watch = _SlotWatch(requests, gate_id)
    replay(log, watch)
    return watch.timeline


@dataclass(slots=True)
class _Stay:
    """A sequence in a slot."""

    key: tuple[int, int]  # router and handle
    request: int
    since_us: int


class _SlotWatch:
    """Follows a replay. Slots are held empty where the records say so: before their member of the batch, and after it."""

    def __init__(self, requests: Mapping[str, int], gate_id: str) -> None:
        self.timeline = Timeline()
        self._requests = requests
        self._gate_id = gate_id
        self._gate: tuple[int, int] | None = None
        self._began_us: int | None = None
        self._by_seed: dict[int, tuple[tuple[int, int], int]] = {}
        self._stays: dict[int, _Stay] = {}
        self._emptied_us: dict[int, int] = {}
        self._batch_since_us = 0
        self._are_held = False

    def __call__(self, body: LogEvent | LogPlan, said: Outputs, record: StepRecord | None) -> None:
        if isinstance(body, LogEvent):
            if isinstance(body.body, RoutedSubmit):
                self._note_submit(body.at_us, body.body)
            elif isinstance(body.body, ExecutorDown):
                self._leave(list(self._stays), body.at_us)
        self._note_ends(body.at_us, said)
        if isinstance(body, LogPlan) and body.plan and record:
            self._note_step(body, record)

    def _note_submit(self, at_us: int, event: RoutedSubmit) -> None:
        submit = event.submit
        if submit.request_id == self._gate_id:
            self._gate = (event.router, submit.handle)
        index = self._requests.get(submit.request_id)
        if index is not None:
            self._began_us = at_us if self._began_us is None else self._began_us
            self._by_seed[submit.seed] = ((event.router, submit.handle), index)

    def _note_ends(self, at_us: int, said: Outputs) -> None:
        ended = {
            (router, message.body.handle) for router, message in said if isinstance(message.body, Finished | Rejected)
        }
        if self._gate in ended:
            self._gate = None
            self._began_us = at_us if self._began_us is not None else None
        if ended:
            self._leave([slot for slot, stay in self._stays.items() if stay.key in ended], at_us)

    def _note_step(self, body: LogPlan, record: StepRecord) -> None:
        assert body.plan
        if self._began_us is not None and self._gate is None:
            self.timeline.useful_slot_steps += record.useful_slots
            self.timeline.held_slot_steps += record.held_slots
        given_back = [slot for slot in body.plan.released.tolist() if slot in self._stays]
        self._leave(given_back, body.at_us)  # preempted: it has not ended
        for admitted in body.plan.admitted:
            if known := self._by_seed.get(admitted.seed):
                self._enter(admitted.slot, *known, body.at_us)
        self._are_held = record.held_slots > record.running
        if not self._are_held:
            self._emptied_us.clear()

    def _enter(self, slot: int, key: tuple[int, int], request: int, at_us: int) -> None:
        if not self._stays:
            self._batch_since_us = at_us
        empty_since_us = self._emptied_us.pop(slot, self._batch_since_us)
        if self._are_held:
            self._add(slot, empty_since_us, at_us, None)
        self._stays[slot] = _Stay(key, request, at_us)

    def _leave(self, slots: Iterable[int], at_us: int) -> None:
        for slot in slots:
            stay = self._stays.pop(slot)
            self._add(slot, stay.since_us, at_us, stay.request)
            self._emptied_us[slot] = at_us
        if not self._stays:  # the last of a batch: all slots are released
            for slot, since_us in self._emptied_us.items() if self._are_held else ():
                self._add(slot, since_us, at_us, None)
            self._emptied_us.clear()
            self._are_held = False

    def _add(self, slot: int, begin_us: int, end_us: int, request: int | None) -> None:
        began_us = self._began_us or 0
        begin_us = max(begin_us, began_us)
        if end_us > begin_us:
            self.timeline.stretches.append(Stretch(slot, begin_us - began_us, end_us - began_us, request))
