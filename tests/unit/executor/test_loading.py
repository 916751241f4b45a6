"""From settings to an engine."""

import subprocess
import sys

import pytest

from services.executor.loading import build_engine
from services.executor.settings import ExecutorSettings
from services.wire.execution import Reset


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
