"""The recorder: the core's event log as a file, written as it happens and replayed after an incident.

The eight bytes of `MAGIC`, then LogRecords, each after its length as a little-endian uint32; the first is the header.
A process that dies leaves a truncated last record, which readers pass over.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from services.scheduler.core.core import Core
from services.scheduler.core.illegal_event import IllegalEvent
from services.scheduler.core.settings import CoreSettings
from services.wire.codec import decode, encode
from services.wire.event_log import LogEvent, LogHeader, LogPlan, LogRecord
from services.wire.execution import PROTOCOL, StepPlan
from services.wire.message import InvalidMessage
from services.wire.scheduling import StepRecord, ToRouter

MAGIC = b"HWLOG\0\0\1"
MAX_RECORD_BYTES = 64 * 1024 * 1024
_LENGTH_BYTES = 4
_DIGEST_BYTES = 16
_KINDS = {field.name: type(field.default) for field in dataclasses.fields(CoreSettings)}

Outputs = Iterable[tuple[int, ToRouter]]
Watch = Callable[[LogEvent | LogPlan, Outputs, StepRecord | None], None]
"""Sees a replay as it goes: each record of the log, the messages to routers that it caused, and the record of its step."""


class InvalidLog(ValueError):
    """The file is no event log, or not one that this version can read."""


class ReplayDiverged(Exception):
    """The core of this version decides otherwise than the recorded one."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay has run through."""

    num_events: int
    num_plans: int
    num_outputs: int


class Recorder:
    """Writes a log to an open binary file, which stays its owner's.

    Give it each event before the core handles it, and each call of `Core.plan` after it, with all that `take_outputs`
    returned since the call before.
    """

    def __init__(self, file: BinaryIO, settings: CoreSettings, build: str = "") -> None:
        self._file = file
        file.write(MAGIC)
        settings_json = json.dumps(dataclasses.asdict(settings), sort_keys=True)
        self._write(LogHeader(protocol=PROTOCOL, core_settings_json=settings_json, build=build))

    def event(self, event: LogEvent) -> None:
        self._write(event)

    def plan(self, at_us: int, plan: StepPlan | None, outputs: Outputs) -> None:
        self._write(LogPlan(at_us=at_us, plan=plan, outputs_digest=outputs_digest(outputs)))

    def _write(self, body: LogHeader | LogEvent | LogPlan) -> None:
        data = encode(LogRecord(body=body))
        self._file.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)


def outputs_digest(outputs: Outputs) -> bytes:
    """BLAKE2b-128 over messages to routers, each after its router's number and its length."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for router, message in outputs:
        data = encode(message)
        digest.update(router.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data)
    return digest.digest()


def read_log(path: Path) -> Iterator[LogRecord]:
    """The records of a file, header first. Raises `InvalidLog`, at once or when it comes to what is wrong."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InvalidLog("this file is no Headway event log")
        header = _read_record(file, number=0)
        if header is None or not isinstance(header.body, LogHeader):
            raise InvalidLog("the log has no header")
        if header.body.protocol != PROTOCOL:
            raise InvalidLog(f"the log has protocol {header.body.protocol}; this version reads {PROTOCOL}")
        yield header
        number = 1
        while (record := _read_record(file, number)) is not None:
            if isinstance(record.body, LogHeader):
                raise InvalidLog(f"record {number} is a second header")
            yield record
            number += 1


def _read_record(file: BinaryIO, number: int) -> LogRecord | None:
    """None at the end, or where the last record is cut off."""
    prefix = file.read(_LENGTH_BYTES)
    if len(prefix) < _LENGTH_BYTES:
        return None
    length = int.from_bytes(prefix, "little")
    if length > MAX_RECORD_BYTES:
        raise InvalidLog(f"record {number} claims {length} bytes; at most {MAX_RECORD_BYTES} are read")
    data = file.read(length)
    if len(data) < length:
        return None
    try:
        return decode(LogRecord, data)
    except InvalidMessage as error:
        raise InvalidLog(f"record {number} is damaged: {error}") from None


def read_settings(header: LogRecord) -> CoreSettings:
    """The settings that the recorded core ran with. Raises `InvalidLog`."""
    assert isinstance(header.body, LogHeader)
    try:
        fields = json.loads(header.body.core_settings_json)
        if not isinstance(fields, dict) or not all(map(_fits, fields, fields.values())):
            raise InvalidLog("the log's settings are not those of a core")
        return CoreSettings(**fields)
    except (TypeError, ValueError, RecursionError) as error:  # the last for brackets without end
        raise InvalidLog(f"the log's settings cannot be used: {error}") from None


def _fits(name: str, value: object) -> bool:
    """Whether the value is of the setting's kind. An older log leaves out the settings that came later."""
    return name in _KINDS and type(value) is _KINDS[name]  # true is no number


def replay(path: Path, watch: Watch = lambda *_: None) -> Replay:
    """Runs a recorded log through this version's core; what `watch` is shown is as it was when the log was written.

    Raises `ReplayDiverged` at the first plan, or message to a router, that is not byte-identical; `InvalidLog` for a
    file that is no log.
    """
    records = read_log(path)
    core = Core(read_settings(next(records)))
    outputs: list[tuple[int, ToRouter]] = []
    num_events = num_plans = num_outputs = 0
    for record in records:
        if isinstance(record.body, LogEvent):
            num_events += 1
            _handle(core, record.body)
            outputs += (said := core.take_outputs())
            watch(record.body, said, None)
        elif isinstance(record.body, LogPlan):
            planned = core.plan(record.body.at_us)
            outputs += (said := core.take_outputs())
            num_plans += planned is not None
            num_outputs += len(outputs)
            _compare(record.body, planned[0] if planned else None, outputs)
            watch(record.body, said, planned[1] if planned else None)
            outputs = []
    return Replay(num_events, num_plans, num_outputs)


def _handle(core: Core, event: LogEvent) -> None:
    try:
        core.handle(event)
    except IllegalEvent:
        return  # as when it was recorded: it changed nothing


def _compare(recorded: LogPlan, plan: StepPlan | None, outputs: Outputs) -> None:
    there = encode(recorded.plan) if recorded.plan else b""
    here = encode(plan) if plan else b""
    if there != here:
        raise ReplayDiverged(f"at {recorded.at_us} us the recorded plan was {recorded.plan}; this core's is {plan}")
    if recorded.outputs_digest != outputs_digest(outputs):
        raise ReplayDiverged(f"at {recorded.at_us} us other messages to routers were recorded")
