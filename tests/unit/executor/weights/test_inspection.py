"""Inspection says what a model needs from its config alone."""

import json
from pathlib import Path

import pytest

from services.executor.weights.errors import ModelNotFound, UnsupportedModel
from services.executor.weights.inspection import inspect
from tests.unit.executor.weights import factory

LLAMA_70B = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "max_position_embeddings": 131072,
}
GB = 10**9


@pytest.fixture
def config_70b(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_70B))
    return path


def test_70b_in_bf16_does_not_fit_80_gb(config_70b: Path) -> None:
    """A config.json alone is enough to say that 70B bf16 needs four devices of 80 GB."""
    report = inspect(str(config_70b), memory_bytes=80 * GB, dtype="bfloat16", context=2048)
    assert report.fit is not None
    assert not report.fit.fits
    assert report.smallest_tensor_parallel == 4
    assert report.kv_bytes_per_token == 320 * 1024
    assert report.weight_bytes_by_dtype["bfloat16"] == 2 * report.num_parameters == 141_107_412_992
    shared = inspect(str(config_70b.parent), memory_bytes=80 * GB, context=2048, tp=4)
    assert shared.fit is not None
    assert shared.fit.fits
    assert shared.kv_bytes_per_token == 80 * 1024


def test_without_a_memory_size_nothing_is_said_of_fitting(config_70b: Path) -> None:
    """The facts of the model need no memory size; the context defaults to 2,048 tokens."""
    report = inspect(str(config_70b))
    assert (report.fit, report.smallest_tensor_parallel, report.memory_bytes, report.context) == (
        None,
        None,
        None,
        2048,
    )


def test_other_json_names_are_read_too(config_70b: Path) -> None:
    """A config under another name is still a config."""
    other = config_70b.rename(config_70b.with_name("llama-70b.json"))
    assert inspect(str(other)).num_parameters == 70_553_706_496


def test_a_gguf_header_is_enough(tmp_path: Path) -> None:
    """A GGUF file and the directory of the same model give the same report."""
    model = factory.tiny_model("qwen3")
    gguf = inspect(str(factory.save_gguf(model, tmp_path / "tiny.gguf", "Q8_0")))
    directory = inspect(str(factory.save_directory(model, tmp_path / "tiny")))
    assert gguf.num_parameters == directory.num_parameters == model.num_parameters()
    assert gguf.weight_bytes_by_dtype == directory.weight_bytes_by_dtype


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "int3"}, "dtype 'int3'.*bfloat16"),
        ({"context": 0}, "1 to 131072"),
        ({"context": 131073}, "1 to 131072"),
        ({"tp": 3}, "possible: 1, 2, 4, 8, 16"),
        ({"tp": 0}, "do not divide among 0"),
    ],
)
def test_questions_that_make_no_sense_are_refused(config_70b: Path, options: dict[str, int | str], words: str) -> None:
    """A wrong question is told apart from a wrong model."""
    with pytest.raises(ValueError, match=words):
        inspect(str(config_70b), **options)  # type: ignore[arg-type]


def test_what_is_no_model_is_refused(config_70b: Path, tmp_path: Path) -> None:
    """Files of other kinds and unsupported models are named."""
    (tmp_path / "notes.txt").write_text("words")
    with pytest.raises(ModelNotFound, match=r"notes\.txt is neither"):
        inspect(str(tmp_path / "notes.txt"))
    config_70b.write_text(json.dumps(LLAMA_70B | {"model_type": "mixtral"}))
    with pytest.raises(UnsupportedModel, match="mixtral"):
        inspect(str(config_70b))
