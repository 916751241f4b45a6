"""From settings to an engine."""

import json
import os
import subprocess
import sys

import pytest

from services.executor.loading import build_engine
from services.executor.settings import ExecutorSettings
from services.executor.weights.digests import known_sha256_of
from services.executor.weights.errors import MalformedModel
from services.wire.execution import Reset, Sampling
from tests.support.steps import Request, run
from tests.unit.executor.weights import factory

ENDLESS = Sampling(temperature=0.0, ignore_eos=True)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A tiny model as a Hugging Face directory."""
    return factory.save_directory(factory.tiny_model("llama"), tmp_path_factory.mktemp("tiny") / "model")


def with_context(directory, tmp_path, context_length):
    """The same files under a config with another context."""
    made = tmp_path / "model"
    made.mkdir()
    for path in directory.iterdir():
        (made / path.name).symlink_to(path)
    config = json.loads((directory / "config.json").read_text()) | {"max_position_embeddings": context_length}
    (made / "config.json").unlink()
    (made / "config.json").write_text(json.dumps(config))
    return made


@pytest.mark.parametrize("num_blocks", [1, 2, 40])
@pytest.mark.parametrize("context_length", [3, 4, 8, 20])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_model_with_a_short_context_serves_all_of_it(directory, tmp_path, backend, context_length, num_blocks):
    """It is tried as far as its context and the pool go, found invariant, and answers up to their end."""
    path = with_context(directory, tmp_path, context_length)
    settings = {"model": str(path), "backend": backend, "kv_pool_tokens": 16 * num_blocks}
    engine = build_engine(ExecutorSettings(**settings, max_slots=2, max_step_tokens=64, threads=1))
    card = engine.reset(1, Reset(max_slots=2, max_step_tokens=64)).card
    assert (card.context_length, card.batch_invariant) == (context_length, True)
    room = min(context_length, 16 * num_blocks)
    request = Request([5], room - 1, ENDLESS)
    run(engine, [request])
    assert len(request.outputs) == room - 1


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_context_too_short_for_an_answer_is_the_models_fault(directory, tmp_path, backend):
    """The words are for whoever has its files."""
    path = with_context(directory, tmp_path, 2)
    with pytest.raises(MalformedModel, match="fewer than 3"):
        build_engine(ExecutorSettings(model=str(path), backend=backend))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_pool_decides_how_many_positions_have_memory(directory, tmp_path, backend):
    """A file that claims the longest context there is costs no more than one that claims what fits."""
    path = with_context(directory, tmp_path, 1 << 24)
    engine = build_engine(ExecutorSettings(model=str(path), backend=backend, kv_pool_tokens=100, threads=1))
    assert engine._backend.num_positions == 96
    assert engine.reset(1, Reset(max_slots=2, max_step_tokens=64)).card.context_length == 1 << 24


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_model_is_opened_once(directory, monkeypatch, backend):
    """Its files are digested, and its tokenizer is read, one time, whatever computes."""
    digested = []

    def note(path):
        digested.append(path)
        return known_sha256_of(path)

    monkeypatch.setattr("services.executor.weights.load.known_sha256_of", note)
    build_engine(ExecutorSettings(model=str(directory), backend=backend, kv_pool_tokens=1600, threads=1))
    assert directory / "tokenizer.json" in digested
    assert len(digested) == len(set(digested))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_threads_of_torch_are_told_to_sleep_before_it_is_imported(directory, backend):
    """Its OpenMP reads how they wait when it is loaded, and a directory of safetensors already loads it."""
    code = f"""
import importlib.abc, os, sys

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"))

sys.meta_path.insert(0, Watch())
from services.executor.loading import build_engine
from services.executor.settings import ExecutorSettings
build_engine(ExecutorSettings(model={str(directory)!r}, backend={backend!r}, kv_pool_tokens=1600))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "PASSIVE\n"


@pytest.mark.model
@pytest.mark.parametrize(
    ("backend", "dtype", "bytes_per_token"),
    [("cpu", "auto", 23_040), ("cpu", "float32", 46_080), ("reference", "auto", 46_080)],
)
def test_an_engine_is_built_from_settings(default_model, backend, dtype, bytes_per_token):
    """The default model loads, says what it is, and its pool has the size asked for."""
    settings = ExecutorSettings(model=str(default_model), backend=backend, dtype=dtype, kv_pool_tokens=1600, threads=2)
    capacity = build_engine(settings).reset(1, Reset(max_slots=4, max_step_tokens=64))
    assert capacity.groups[0].num_blocks == 100
    assert capacity.groups[0].bytes_per_token == bytes_per_token
    assert capacity.card.vocab_size == 49_152
    assert capacity.card.batch_invariant
    assert len(capacity.card.numerics_digest) == 32


def test_the_size_of_the_pool_is_not_in_the_digest(directory):
    """A stream goes on with the same bits in a pool of any size, the smallest included."""
    settings = {"model": str(directory), "backend": "cpu", "max_slots": 4, "threads": 1}
    cards = [
        build_engine(ExecutorSettings(**settings, kv_pool_tokens=16 * num_blocks))
        .reset(1, Reset(max_slots=4, max_step_tokens=64))
        .card
        for num_blocks in (1, 2, 4, 100)
    ]
    assert len({card.numerics_digest for card in cards}) == 1


@pytest.mark.model
def test_each_way_to_compute_has_a_digest_of_its_own(default_model):
    """Precision and back end are in it; threads and pool are not."""
    settings = [
        {"dtype": "auto", "threads": 1, "kv_pool_tokens": 800},
        {"dtype": "auto", "threads": 2},
        {"dtype": "bfloat16"},
        {"dtype": "float32"},
    ]
    cards = [
        build_engine(ExecutorSettings(model=str(default_model), backend="cpu", **each))
        .reset(1, Reset(max_slots=4, max_step_tokens=64))
        .card
        for each in settings
    ]
    first, same, *others = [card.numerics_digest for card in cards]
    assert first == same
    assert len({first, *others}) == 3


@pytest.mark.model
def test_the_compiled_kernels_serve_a_gguf_file_without_torch(default_model):
    """Neither torch nor transformers nor the library that dequantizes is imported: they cost seconds of start."""
    code = (
        "import sys; from services.executor.loading import build_engine; "
        "from services.executor.settings import ExecutorSettings; "
        f"build_engine(ExecutorSettings(model={str(default_model)!r}, backend='cpu')); "
        "print({'torch', 'transformers', 'gguf'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
