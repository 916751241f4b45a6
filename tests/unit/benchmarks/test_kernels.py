"""The kernels' benchmark, on a small model and a clock that moves when it is read."""

from itertools import count

import numpy as np
import pytest

from benchmarks import kernels, kernels_attention
from benchmarks.kernels import kernel_rows, roof_rows
from benchmarks.roofs import Roofs
from kernels.cpu.library import KINDS, load


@pytest.fixture
def library(monkeypatch):
    """The library, for a benchmark of two small linears."""
    monkeypatch.setattr(kernels, "LAYER", ((576, 32), (1536, 16)))
    monkeypatch.setattr(kernels, "HEAD", (576, 16))
    monkeypatch.setattr(kernels, "WEIGHT_BYTES", 1)
    loaded = load()
    threads = loaded.threads
    yield loaded
    loaded.set_threads(threads)


def test_shares_are_of_the_roof_that_binds(library):
    """One row is bound by memory where that is slow, many rows by the arithmetic of their kind."""
    weights = 576 * 32 + 1536 * 16 + 576 * 16
    seconds = count()  # a pass takes one
    roofs = {1: Roofs(read=8e-9 * weights, int8=1, bf16=1, fp32=2e-9 * 64 * weights)}
    rows = {row.metric: row for row in kernel_rows(library, ("F32",), roofs, lambda: next(seconds))}
    assert rows["F32, 1 rows, 1 threads: speed"].unit == "GB/s"
    assert rows["F32, 1 rows, 1 threads: share of the binding roof"].value == pytest.approx(50)
    assert rows["F32, 1 rows, 1 threads: time over the roof's"].value == pytest.approx(2)
    assert rows["F32, 1 rows, 1 threads: time over the roof's"].holds is False
    assert rows["F32, 64 rows, 1 threads: speed"].value == pytest.approx(2e-9 * 64 * weights)
    assert rows["F32, 64 rows, 1 threads: share of the binding roof"].value == pytest.approx(100)
    assert rows["F32, 64 rows, 1 threads: time over the roof's"].holds is True


def test_every_kind_is_measured_at_every_size(library):
    """All kinds run, K-quants at widths that they can have, for each number of threads."""
    roofs = {1: Roofs(1, 1, 1, 1), 2: Roofs(2, 2, 2, 2)}
    seconds = count()
    metrics = [row.metric for row in kernel_rows(library, KINDS, roofs, lambda: next(seconds))]
    assert len(metrics) == len(set(metrics)) == len(KINDS) * 2 * 4 * 3
    assert [row.value for row in roof_rows(roofs)] == [1, 1, 1, 1, 2, 2, 2, 2]


def test_attention_is_part_of_it(library, monkeypatch):
    """After roofs and linears, beside the roof of the one thread that it runs on."""
    monkeypatch.setattr(
        kernels, "measure", lambda _level, counts: {each: Roofs(each, each, each, each) for each in counts}
    )
    monkeypatch.setattr(kernels, "usable_cpus", lambda: 2)
    monkeypatch.setattr(kernels, "KINDS", ("F32",))
    monkeypatch.setattr(kernels_attention, "LAYERS", 2)
    rows = [row.metric.split(",")[0] for row in kernels.run()]
    assert list(dict.fromkeys(rows)) == ["roof", "F32", "attention"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_that_are_measured_are_finite(kind):
    """Sums of infinities might take another time than sums of numbers."""
    library = load()
    linear = library.linear(512)
    linear.add_segment(kind, 32, kernels.random_tensor(kind, 512, 32))
    assert np.isfinite(linear.unpack(np.arange(32, dtype=np.int32))).all()
