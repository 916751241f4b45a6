"""Which engine an executor process builds, and what it says when it cannot."""

import subprocess
import sys

import pytest

from services.executor.main import build_engine
from services.executor.settings import ExecutorSettings
from services.executor.simulated import SimulatedExecutor
from services.runtime.lifecycle import BadSetting


def test_the_simulated_back_end_needs_no_torch():
    """Building the simulated engine leaves torch unimported: it serves where torch is not installed."""
    code = (
        "import sys; from services.executor.main import build_engine; "
        "from services.executor.settings import ExecutorSettings; "
        "build_engine(ExecutorSettings(backend='simulated')); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


def test_the_simulated_engine_takes_its_time():
    """In a process a simulated step lasts as long as its model says."""
    engine = build_engine(ExecutorSettings(backend="simulated", simulated_step_fixed_us=1))
    assert isinstance(engine, SimulatedExecutor)
    assert engine._sleep is not None


@pytest.mark.parametrize("model", ["", "/nonexistent/model.gguf"])
def test_a_model_that_cannot_be_loaded_is_a_bad_setting(model):
    """No model and a model that is not there end in words for the operator."""
    with pytest.raises(BadSetting, match="model"):
        build_engine(ExecutorSettings(model=model))
