"""Which back end computes."""

import pytest

from kernels.cpu import library
from services.executor.backends.choice import Choice, choose
from services.executor.settings import ExecutorSettings
from services.runtime.lifecycle import BadSetting
from tests.support.tiny_model import tiny_config

FIT = tiny_config(head_dim=64)


@pytest.fixture
def no_library(monkeypatch):
    monkeypatch.setattr(library, "why_missing", lambda: "they were not built")


@pytest.fixture
def a_library(monkeypatch):
    monkeypatch.setattr(library, "why_missing", lambda: "")


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16"])
@pytest.mark.parametrize("backend", ["auto", "cpu"])
def test_the_compiled_kernels_are_the_choice_where_they_are_there(a_library, backend, dtype):
    """In every precision; keys and values are float32 where weights are."""
    choice = choose(ExecutorSettings(backend=backend, dtype=dtype), FIT)
    assert choice == Choice("cpu", dtype)
    assert choice.kv_dtype == ("float32" if dtype == "float32" else "bfloat16")


def test_without_them_the_reference_is_and_says_why(no_library):
    """It computes in float32, whatever the file has."""
    assert choose(ExecutorSettings(), FIT) == Choice("reference", "float32", "they were not built")


def test_what_was_asked_for_by_name_is_not_replaced(no_library):
    """A missing library, or a precision that the reference does not have, ends with the reason."""
    with pytest.raises(BadSetting, match="they were not built"):
        choose(ExecutorSettings(backend="cpu"), FIT)
    with pytest.raises(BadSetting, match="float32 alone"):
        choose(ExecutorSettings(backend="reference", dtype="bfloat16"), FIT)
    with pytest.raises(BadSetting, match="float32 alone"):
        choose(ExecutorSettings(dtype="bfloat16"), FIT)


@pytest.mark.parametrize("head_dim", [8, 24, 272])
def test_a_model_that_the_kernels_cannot_compute_is_the_references(a_library, head_dim):
    """Its heads have another size than theirs."""
    config = tiny_config(head_dim=head_dim)
    choice = choose(ExecutorSettings(), config)
    assert choice.backend == "reference"
    assert str(head_dim) in choice.missing
    with pytest.raises(BadSetting, match=str(head_dim)):
        choose(ExecutorSettings(backend="cpu"), config)
