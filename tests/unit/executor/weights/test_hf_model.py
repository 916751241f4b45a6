"""The side files of a Hugging Face directory are read in all their forms, and checked."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.executor.weights import hf_model, json_file
from services.executor.weights.errors import MalformedModel, ModelFileError, ModelNotFound, UnsupportedModel


def put(directory: Path, name: str, value: Any) -> None:
    (directory / name).write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        (None, ""),
        ("{{ x }}", "{{ x }}"),
        ([{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}], "d"),
        ([{"name": "tool_use", "template": "t"}], ""),
    ],
)
def test_a_template_in_the_tokenizers_config_is_found(tmp_path: Path, template: Any, wanted: str) -> None:
    """A string, or the default of a list of named ones; a file of its own comes before both."""
    put(tmp_path, "tokenizer_config.json", {"chat_template": template})
    assert hf_model.read_template(tmp_path) == wanted
    put(tmp_path, "chat_template.jinja", "own file")
    assert hf_model.read_template(tmp_path) == "own file"


def test_special_tokens_are_read_as_text_or_object(tmp_path: Path) -> None:
    """Both spellings of a token count; tokenizer_config.json has the last word."""
    put(tmp_path, "special_tokens_map.json", {"bos_token": "old", "pad_token": "p"})
    put(tmp_path, "tokenizer_config.json", {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": None})
    tokens = hf_model.read_special_tokens(tmp_path)
    assert tokens == {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "p"}


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [
        ({"model": {"vocab": {"a": 7}}}, "token id 7, but the model knows 5"),
        ({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 5, "content": "x"}]}, "token id 5"),
        ({"model": {"vocab": [["a", 0.0]] * 6}}, "token id 5"),
        ({"model": {}}, "no vocabulary"),
        ({"model": {"vocab": {"a": "b"}}}, "no integers"),
        ({"model": {"vocab": {"a": 1}}, "added_tokens": [5]}, "no tokens"),
        ("[]", "no JSON object"),
        ("[" * 100_000, "not valid JSON"),
        ("{", "not valid JSON"),
    ],
)
def test_a_bad_tokenizer_is_refused(tmp_path: Path, tokenizer: Any, words: str) -> None:
    """Token ids outside the model would reach past its embeddings; they are refused at load."""
    put(tmp_path, "tokenizer.json", tokenizer)
    with pytest.raises(MalformedModel, match=words):
        hf_model.read_tokenizer(tmp_path, vocab_size=5)


def test_a_directory_without_tokenizer_json_says_what_to_do(tmp_path: Path) -> None:
    """SentencePiece files alone are not enough."""
    put(tmp_path, "tokenizer.model", "x")
    with pytest.raises(UnsupportedModel, match=r"no tokenizer\.json"):
        hf_model.read_tokenizer(tmp_path, vocab_size=5)


def test_missing_shards_and_missing_weights_are_told_apart(tmp_path: Path) -> None:
    """A directory without weights, and one with a shard missing, each say so."""
    with pytest.raises(ModelNotFound, match="has neither"):
        hf_model.weight_files(tmp_path)
    put(tmp_path, "model.safetensors.index.json", {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})
    put(tmp_path, "m-1.safetensors", "")
    with pytest.raises(ModelNotFound, match=r"lacks the weights file m-2\.safetensors"):
        hf_model.weight_files(tmp_path)


@pytest.mark.parametrize("index", [{}, {"weight_map": []}, {"weight_map": {}}, {"weight_map": {"a": 5}}])
def test_a_bad_index_is_refused(index: dict[str, Any]) -> None:
    """An index without a map of names is no index."""
    with pytest.raises(MalformedModel):
        hf_model.shard_names(index)


def test_long_and_unreadable_files_are_refused(tmp_path: Path) -> None:
    """Size is bounded before parsing, and text must be UTF-8."""
    put(tmp_path, "config.json", " " * (json_file.MAX_CONFIG_BYTES + 1))
    with pytest.raises(MalformedModel, match="longer than"):
        hf_model.read_config(tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff")
    with pytest.raises(MalformedModel, match="UTF-8"):
        hf_model.read_config(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelFileError, match=r"cannot read config\.json"):
        hf_model.read_config(tmp_path)
