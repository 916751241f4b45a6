"""The benchmark of attention, with small layers and a clock that moves when it is read."""

from itertools import count

import pytest

from benchmarks import kernels_attention
from benchmarks.kernels_attention import CASES, Case, attention_rows
from benchmarks.roofs import Roofs
from kernels.cpu.library import load


@pytest.fixture(autouse=True)
def two_layers(monkeypatch):
    """A fifteenth of the memory."""
    monkeypatch.setattr(kernels_attention, "LAYERS", 2)


def rows_of(cases, roof):
    seconds = count()  # each round takes one
    rows = attention_rows(load().level, roof, cases, lambda: next(seconds))
    return {row.metric.removeprefix("attention, "): row for row in rows}


def test_decoding_is_measured_beside_the_memory_that_it_reads():
    """Each key and value once, in the format of the cache."""
    elements = 2 * 2 * 4 * 32 * 3 * 64  # layers, keys and values, sequences, tokens, heads, dimensions
    rows = rows_of([Case(4, 1, 31, 1.5)], Roofs(read=2e-9 * elements, int8=1, bf16=1, fp32=1))
    what = "BF16 cache, decode, 4 sequences at 32 tokens, 1 threads"
    assert (rows[f"{what}: speed"].value, rows[f"{what}: speed"].unit) == (pytest.approx(2e-9 * elements), "GB/s")
    assert rows[f"{what}: share of the binding roof"].value == pytest.approx(100)
    assert rows[f"{what}: time over the roof's"].holds is True
    assert rows[f"{what.replace('BF16', 'F32')}: share of the binding roof"].value == pytest.approx(200)


def test_prefill_is_measured_beside_what_it_computes():
    """A query meets its own key and all before it: a masked one is no work. Each format has its roof."""
    operations = 2 * 4 * (17 + 18 + 19) * 9 * 64
    rows = rows_of([Case(1, 3, 16, 1.5)], Roofs(read=1, int8=1, bf16=1e-9 * operations / 2, fp32=1e-9 * operations / 4))
    what = "BF16 cache, prefill, 3 tokens after 16, 1 threads"
    assert (rows[f"{what}: speed"].value, rows[f"{what}: speed"].unit) == (pytest.approx(1e-9 * operations), "GOP/s")
    assert rows[f"{what}: time over the roof's"].value == pytest.approx(0.5)
    assert rows[f"{what.replace('BF16', 'F32')}: time over the roof's"].value == pytest.approx(0.25)


def test_what_is_promised_is_measured():
    """65 % of the roof at 64 sequences of 128 tokens and in chunks of 256 tokens, in both formats."""
    rows = rows_of(CASES, Roofs(1e3, 1e3, 1e3, 1e3))
    promised = [name.removesuffix(": time over the roof's") for name, row in rows.items() if row.goal]
    assert promised == [
        f"{kind} cache, {case}, 1 threads"
        for kind in ("BF16", "F32")
        for case in (
            "decode, 64 sequences at 128 tokens",
            "prefill, 256 tokens after 0",
            "prefill, 256 tokens after 768",
        )
    ]
    assert {row.goal for row in rows.values() if row.goal} == {1 / 0.65}
