"""The CPU back end: right on every kind of weights, and dependent on each sequence alone."""

import threading
import types

import numpy as np
import pytest
import torch

from kernels.cpu import library
from services.executor.backends.choice import Choice
from services.executor.backends.cpu import CpuBackend, pack_model
from services.executor.backends.drawn import drawn_ids
from services.executor.backends.reference import ReferenceBackend
from services.executor.backends.reference_decoder import Decoder
from services.executor.models.memory import kv_bytes_per_token
from services.executor.sampling import Draw
from services.executor.self_test import is_batch_invariant
from services.executor.weights.errors import MalformedModel
from services.executor.weights.load import load_model, open_model
from services.executor.weights.stored_tensor import StoredTensor
from services.wire.execution import Sampling
from tests.support.steps import work_of
from tests.support.tiny_model import tiny_config
from tests.unit.executor.weights import factory

KINDS = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same random model as a GGUF file of each kind."""
    directory = tmp_path_factory.mktemp("kinds")
    model = factory.tiny_model("llama")
    return {kind: factory.save_gguf(model, directory / f"{kind}.gguf", kind) for kind in KINDS}


def cpu_backend(path, dtype="auto", num_blocks=16):
    with open_model(path) as opened:
        model = pack_model(library.load(), opened.description.config, opened.weights, dtype)
    return CpuBackend(model, num_blocks, library.load())


def logits(backend, work):
    rows = sum(item.count for item in work)
    return backend.logits(backend.forward(work, np.arange(rows, dtype=np.int32))).copy()


@pytest.mark.parametrize(("dtype", "tolerance"), [("auto", 0.05), ("bfloat16", 0.03), ("float32", 1e-5)])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_near_the_references(files, kind, dtype, tolerance):
    """Each kind of weights, in its own precision and converted, against float32 on the same dequantized weights."""
    loaded = load_model(files[kind], torch.float32)
    reference = ReferenceBackend(Decoder(loaded.config, dict(loaded.tensors)), 16)
    work = [work_of(range(5, 42), [3, 1, 2]), work_of([7], [5]), work_of(range(60, 90), [8, 9])]
    right, computed = logits(reference, work), logits(cpu_backend(files[kind], dtype), work)
    assert np.abs(computed - right).max() < tolerance * np.abs(right).max()


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "float32"])
def test_its_cache_takes_what_was_planned_for(files, dtype):
    """A token takes the bytes that sizes of pools are computed with."""
    with open_model(files["Q8_0"]) as opened:
        planned = kv_bytes_per_token(opened.description.config, Choice("cpu", dtype).kv_dtype)
    assert cpu_backend(files["Q8_0"], dtype, num_blocks=3).bytes_per_token == planned


def test_its_cache_has_its_memory_before_it_is_used(files):
    """Once all is loaded, the system is asked for the whole of it, in the background."""
    backend = cpu_backend(files["Q4_0"])
    asked = []
    backend._library = types.SimpleNamespace(populate=lambda array: asked.append(array.nbytes))
    backend.settle()
    for thread in threading.enumerate():
        if thread.name == "populate":
            thread.join(10)
    assert asked == [backend.kv_cache.keys.nbytes, backend.kv_cache.values.nbytes]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["F32", "Q4_1", "Q8_0"])
def test_results_depend_on_each_sequence_alone(files, kind, dtype, threads):
    """Alone, in a crowd, in pieces in other blocks, at any number of threads: the same bits."""
    cpu = library.load()
    before = cpu.threads
    cpu.set_threads(threads)
    try:
        assert is_batch_invariant(cpu_backend(files[kind], dtype), factory.tiny_model("llama").config.vocab_size)
    finally:
        cpu.set_threads(before)


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_what_free_blocks_hold_is_not_read(files, dtype):
    """A cache full of NaN gives the same bits."""
    clean, spoiled = cpu_backend(files["Q8_0"], dtype), cpu_backend(files["Q8_0"], dtype)
    spoiled.kv_cache.keys.fill(0xFF)  # NaN in float32 and in bfloat16
    spoiled.kv_cache.values.fill(0xFF)
    work = [work_of(range(5, 42), [3, 1, 2]), work_of([7], [5])]
    assert np.array_equal(logits(clean, work), logits(spoiled, work))


def test_only_the_wanted_rows_come_back(files):
    """Rows that nobody asked for cost nothing after the last attention, and the others are the same bits."""
    backend = cpu_backend(files["Q4_1"])
    work = [work_of(range(5, 42), [3, 1, 2]), work_of([7], [5])]
    every = backend.forward(work, np.arange(38, dtype=np.int32))
    some = backend.forward(work, np.array([4, 36, 37], np.int32))
    assert np.array_equal(every[[4, 36, 37]], some)
    assert backend.forward(work, np.empty(0, np.int32)).shape == (0, every.shape[1])


def test_draws_are_those_of_the_definition(files):
    """Every parameter reaches the kernels, and each draw its row."""
    rng = np.random.default_rng(2)
    logits = (rng.standard_normal((5, 900)) * 2).astype(np.float32)
    samplings = [{}, {"top_k": 7}, {"top_p": 0.3}, {"min_p": 0.2}, {"temperature": 0.0}, {"temperature": 0.3}] * 20
    draws = [Draw(Sampling(**({"temperature": 1.1} | each)), float(rng.random())) for each in samplings]
    rows = rng.integers(0, 5, len(draws), dtype=np.int32)
    drawn = cpu_backend(files["Q8_0"]).draw(logits, rows, draws)
    assert drawn.tolist() == drawn_ids(logits, rows, draws).tolist()


def test_only_masked_rows_may_hold_infinities(files):
    """The mark reaches the kernels: else a masked row is one that is not finite."""
    logits = np.array([[1.0, -np.inf, 0.5]], np.float32)
    row, draws, backend = np.zeros(1, np.int32), [Draw(Sampling(temperature=0.0), 0.0)], cpu_backend(files["Q8_0"])
    assert backend.draw(logits, row, draws).tolist() == drawn_ids(logits, row, draws).tolist() == [-1]
    assert backend.draw(logits, row, draws, are_masked=True).tolist() == [0]
    assert backend.best(logits, row).tolist() == [-1]


class Stored:
    """Random weights of a config, one of them spoiled."""

    def __init__(self, config, spoiled, value=np.inf):
        from services.executor.weights.layout import expected_shapes

        self._shapes = expected_shapes(config)
        self._spoiled = spoiled
        self._value = value

    def has(self, canonical):
        return canonical in self._shapes

    def tensor(self, canonical):
        shape = self._shapes[canonical]
        values = np.ones(shape, np.float32)
        if canonical == self._spoiled:
            values.flat[3] = self._value
        return StoredTensor("F32", shape[-1], values.reshape(-1, shape[-1]).view(np.uint8))


@pytest.mark.parametrize("spoiled", ["embed.weight", "layers.1.down.weight", "layers.0.attn_norm.weight"])
def test_weights_that_are_not_finite_are_refused(spoiled):
    """A file from a stranger ends in an error that names the tensor, not in tokens."""
    config = tiny_config(head_dim=16)
    with pytest.raises(MalformedModel, match=spoiled):
        pack_model(library.load(), config, Stored(config, spoiled), "auto")
    pack_model(library.load(), config, Stored(config, ""), "auto")


def test_weights_that_bfloat16_cannot_hold_are_refused(tmp_path):
    """By both loaders, where bfloat16 is asked for: rounded, the largest floats are infinite."""
    config, large = tiny_config(head_dim=16), float(np.finfo(np.float32).max)
    stored = Stored(config, "embed.weight", large)
    pack_model(library.load(), config, stored, "auto")
    with pytest.raises(MalformedModel, match=r"embed\.weight holds numbers that are not finite in bfloat16"):
        pack_model(library.load(), config, stored, "bfloat16")
    model = factory.tiny_model("llama")
    with torch.no_grad():
        next(model.parameters()).view(-1)[3] = large
    path = factory.save_gguf(model, tmp_path / "large.gguf", "F32")
    load_model(path, torch.float32)
    with pytest.raises(MalformedModel, match="not finite in bfloat16"):
        load_model(path, torch.bfloat16)
