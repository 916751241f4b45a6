import json
from pathlib import Path

import pytest

from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from services.scheduler.recorder import (
    MAGIC,
    MAX_RECORD_BYTES,
    InvalidLog,
    Recorder,
    ReplayDiverged,
    outputs_digest,
    read_log,
    read_settings,
    replay,
)
from services.wire.codec import decode, encode
from services.wire.event_log import LogEvent, LogHeader, LogPlan, LogRecord, SessionClosed, Tick
from services.wire.execution import PROTOCOL, Sampling
from services.wire.scheduling import Finished, Rejected, RejectReason, ToRouter
from tests.simulation.strict_engine import StrictEngine


def record(path: Path, **chosen: str) -> CoreSettings:
    """A small run with a loss in it."""
    settings = CoreSettings(token_budget=9, max_slots=3, **chosen)
    with path.open("wb") as file:
        d = Driver(settings, StrictEngine(num_blocks=12), recorder=Recorder(file, settings, build="test"))
        d.start()
        for seed in range(5):
            d.submit([seed + 1] * 30, max_tokens=20, seed=seed, sampling=Sampling(ignore_eos=True))
        d.at(15_500, d.lose_executor)
        d.at(17_000, d.executor_up)
        d.run()
    return settings


def frames(data: bytes) -> list[bytes]:
    """The records' bytes."""
    at, found = len(MAGIC), []
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        found.append(data[at + 4 : end])
        at = end
    return found


def write(path: Path, records: list[bytes], magic: bytes = MAGIC) -> None:
    path.write_bytes(magic + b"".join(len(data).to_bytes(4, "little") + data for data in records))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.hwlog"
    record(path)
    return path


def test_a_log_replays_byte_for_byte(log: Path):
    """Events, plans and messages are counted."""
    outcome = replay(log)
    assert outcome.num_events > 20
    assert outcome.num_plans > 20
    assert outcome.num_outputs > 50


def test_a_log_begins_with_its_magic_and_the_settings(log: Path):
    """As the contract says."""
    assert log.read_bytes().startswith(b"HWLOG\0\0\1")
    header = next(read_log(log))
    assert header.body.build == "test"
    assert read_settings(header) == CoreSettings(token_budget=9, max_slots=3)


def test_a_replay_can_be_watched(log: Path):
    """Step for step, with what was said to routers: nothing of it is in the log itself."""
    ends, records = [], []

    def watch(body, said, record):
        ends.extend((body.at_us, message.body.handle) for _, message in said if isinstance(message.body, Finished))
        if record:
            assert body.plan
            assert record.at_us == body.at_us
            records.append(record)

    outcome = replay(log, watch)
    assert len(records) == outcome.num_plans
    assert sorted(handle for _, handle in ends) == [1, 2, 3, 4, 5]
    assert [at_us for at_us, _ in ends] == sorted(at_us for at_us, _ in ends)
    assert sum(record.finished for record in records) == 5 - 1, "those that end with the last step are in no record"


def test_the_way_of_batching_is_in_the_log(tmp_path: Path):
    """A log of static batches replays as such."""
    path = tmp_path / "static.hwlog"
    settings = record(path, batching="static")
    assert read_settings(next(read_log(path))) == settings
    assert replay(path).num_plans > 20


def test_a_setting_that_an_older_log_does_not_have_is_its_default(log: Path):
    """Logs of the versions before it replay."""
    records = frames(log.read_bytes())
    header = decode(LogRecord, records[0]).body
    older = json.loads(header.core_settings_json)
    del older["batching"]
    records[0] = encode(LogRecord(body=LogHeader(protocol=PROTOCOL, core_settings_json=json.dumps(older))))
    write(log, records)
    assert replay(log).num_plans > 20


def test_a_truncated_last_record_is_passed_over(log: Path):
    """The process that wrote it died; all before it replays."""
    data, whole = log.read_bytes(), replay(log)
    last = len(frames(data)[-1])
    for cut in (1, last, last + 1, last + 3):
        log.write_bytes(data[:-cut])
        assert replay(log).num_events >= whole.num_events - 1


def test_another_decision_is_noticed(log: Path):
    """A recorded plan that this core would not make."""
    records = frames(log.read_bytes())
    at, plan = next(
        (number, body)
        for number, data in enumerate(records)
        if isinstance(body := decode(LogRecord, data).body, LogPlan) and body.plan
    )
    records[at] = encode(LogRecord(body=LogPlan(at_us=plan.at_us, outputs_digest=plan.outputs_digest)))
    write(log, records)
    with pytest.raises(ReplayDiverged, match="plan"):
        replay(log)


def test_another_message_to_a_router_is_noticed(log: Path):
    """The digest of messages is compared too."""
    records = frames(log.read_bytes())
    at, plan = [
        (number, body)
        for number, data in enumerate(records)
        if isinstance(body := decode(LogRecord, data).body, LogPlan)
    ][-1]
    records[at] = encode(LogRecord(body=LogPlan(at_us=plan.at_us, plan=plan.plan, outputs_digest=bytes(16))))
    write(log, records)
    with pytest.raises(ReplayDiverged, match="messages"):
        replay(log)


def test_an_illegal_event_in_a_log_changes_nothing_in_the_replay(log: Path):
    """It was refused when it was recorded as well."""
    records = frames(log.read_bytes())
    records.insert(1, encode(LogRecord(body=LogEvent(at_us=0, body=SessionClosed(router=77)))))
    write(log, records)
    replay(log)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no Headway event log"),
        (b"HWLOG\0\0\2", "no Headway event log"),
        (MAGIC, "no header"),
        (MAGIC + b"\1\0", "no header"),
        (MAGIC + (MAX_RECORD_BYTES + 1).to_bytes(4, "little"), "claims"),
        (MAGIC + b"\4\0\0\0\xff\xff\xff\xff", "damaged"),
        (MAGIC + b"\0\0\0\0", "damaged"),
    ],
)
def test_a_hostile_file_is_refused_in_words(tmp_path: Path, data: bytes, why: str):
    """No traceback from within, no attempt to read what it claims."""
    path = tmp_path / "hostile"
    path.write_bytes(data)
    with pytest.raises(InvalidLog, match=why):
        replay(path)


@pytest.mark.parametrize(
    "settings_json",
    [
        "",
        "[]",
        "{",
        '{"max_slots": "many"}',
        '{"max_slots": 0}',
        '{"unknown": 1}',
        '{"max_slots": 1e999}',
        '{"batching": "dynamic"}',
        '{"batching": 1}',
        '{"prefix_cache": "no"}',
        '{"max_slots": true}',
        pytest.param("[" * 100_000, id="nested without end"),
    ],
)
def test_settings_that_are_none_are_refused(tmp_path: Path, settings_json: str):
    """The header's JSON is data from a stranger."""
    path = tmp_path / "hostile"
    write(path, [encode(LogRecord(body=LogHeader(protocol=PROTOCOL, core_settings_json=settings_json)))])
    with pytest.raises(InvalidLog, match="settings"):
        replay(path)


def test_headers_are_checked(tmp_path: Path):
    """First, once, and of this protocol."""
    path = tmp_path / "log"
    header = encode(LogRecord(body=LogHeader(protocol=PROTOCOL, core_settings_json=json.dumps({}))))
    write(path, [encode(LogRecord(body=LogEvent(at_us=0, body=Tick())))])
    with pytest.raises(InvalidLog, match="no header"):
        replay(path)
    write(path, [header, header])
    with pytest.raises(InvalidLog, match="second header"):
        replay(path)
    write(path, [encode(LogRecord(body=LogHeader(protocol=99, core_settings_json="{}")))])
    with pytest.raises(InvalidLog, match="protocol 99"):
        replay(path)


def test_the_digest_depends_on_routers_order_and_content():
    """Any other sequence of messages has another one."""

    def message(handle: int) -> ToRouter:
        return ToRouter(body=Rejected(handle=handle, reason=RejectReason.INVALID))

    digests = {
        outputs_digest(outputs)
        for outputs in ([], [(1, message(1))], [(2, message(1))], [(1, message(1)), (1, message(2))])
    }
    assert len(digests) == 4
    assert len(outputs_digest([])) == 16
