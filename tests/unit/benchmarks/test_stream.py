"""The stream benchmark: the rows' arithmetic, and one short run of the real thing."""

import asyncio

import pytest

from benchmarks import stream
from benchmarks.arrivals import Arrivals
from benchmarks.served import serving
from benchmarks.stream import Window, rows


def steady(period_s, num_tokens, started_s=0.0):
    """One token every `period_s`."""
    arrived = Arrivals(started_s)
    for number in range(num_tokens):
        arrived.note(1, started_s + period_s * (number + 1))
    return arrived


def test_rows_tell_the_window():
    """Two streams with a token every 10 ms, of which a step computes for 5: half of the time the executor idles."""
    cpu_s = {"router": 0.2, "this client": 0.5}
    values = {row.metric: row.value for row in rows([steady(0.01, 300)] * 2, Window(1.001, 2.001, cpu_s))}
    latencies = [values[name] for name in ("TTFT, median", "TTFT, max", "TBT, mean", "TBT, max")]
    assert latencies == pytest.approx([10] * 4)
    assert values["tokens per second"] == pytest.approx(200)
    assert values["tokens per message"] == 1
    assert values["executor idle, estimated: all but 5 ms a step"] == pytest.approx(50)
    assert values["router CPU per message"] == pytest.approx(1000)
    assert values["CPU share of this client"] == pytest.approx(50)


def test_the_whole_stack_streams(monkeypatch):
    """A short run: every stream has tokens in the window, each process has its CPU time, and the server ends."""
    monkeypatch.setattr(stream, "STREAMS", 4)
    monkeypatch.setattr(stream, "WINDOW_S", 0.5)
    with serving(stream.SETTINGS) as server:
        streams, window = asyncio.run(stream.stream_all(server))
    assert len(streams) == 4
    assert all(each.within(window.begin_s, window.end_s).num_tokens for each in streams)
    assert window.cpu_s.keys() == {"router", "scheduler", "executor", "this client"}
    assert window.length_s >= 0.5
    assert server.pids.keys() == {"router", "scheduler", "executor"}
