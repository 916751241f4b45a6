"""What a Hugging Face directory says besides its weights: config, tokenizer, template. Needs neither torch nor numpy."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from services.executor.models.config import DecoderConfig
from services.executor.models.hf_config import read_hf_config
from services.executor.weights.errors import MalformedModel, ModelNotFound, UnsupportedModel
from services.executor.weights.fields import Fields
from services.executor.weights.json_file import MAX_TOKENIZER_BYTES, parse_object, read_object, read_text

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
SPECIAL_TOKENS = "special_tokens_map.json"
WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
SIDE_FILES = (CONFIG, GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG, TEMPLATE, SPECIAL_TOKENS)

_SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")
_MAX_SHARDS = 4096


def read_config(directory: Path) -> DecoderConfig:
    """The config, with the end tokens that generation_config.json adds."""
    config = read_hf_config(read_object(directory / CONFIG))
    path = directory / GENERATION_CONFIG
    if not path.is_file():
        return config
    added = Fields(read_object(path), GENERATION_CONFIG).token_ids("eos_token_id", config.vocab_size)
    return dataclasses.replace(config, eos_ids=tuple(dict.fromkeys(added + config.eos_ids)))


def read_tokenizer(directory: Path, vocab_size: int) -> str:
    """tokenizer.json as it stands, once its token ids are known to be ones of the model."""
    path = directory / TOKENIZER
    if not path.is_file():
        raise UnsupportedModel(
            "the directory has no tokenizer.json; save the tokenizer in the format of the `tokenizers` library"
        )
    text = read_text(path, MAX_TOKENIZER_BYTES)
    highest = _highest_token_id(parse_object(text, TOKENIZER))
    if highest >= vocab_size:
        raise MalformedModel(f"{TOKENIZER} has the token id {highest}, but the model knows {vocab_size} tokens")
    return text


def read_template(directory: Path) -> str:
    """The chat template, from its own file or from tokenizer_config.json; empty where there is none."""
    path = directory / TEMPLATE
    if path.is_file():
        return read_text(path)
    template = _optional(directory / TOKENIZER_CONFIG).get("chat_template") or ""
    if isinstance(template, list):
        named = [each for each in template if isinstance(each, dict) and each.get("name") == "default"]
        template = named[0].get("template") if named else ""
    if not isinstance(template, str):
        raise MalformedModel(f"{TOKENIZER_CONFIG}: chat_template is neither a string nor a list with a default")
    return template


def read_special_tokens(directory: Path) -> dict[str, str]:
    """The special tokens that chat templates know by name."""
    tokens: dict[str, str] = {}
    for name in (SPECIAL_TOKENS, TOKENIZER_CONFIG):
        values = _optional(directory / name)
        for key in _SPECIAL_NAMES:
            value = values.get(key)
            value = value.get("content") if isinstance(value, dict) else value
            if isinstance(value, str):
                tokens[key] = value
    return tokens


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files, in a fixed order: one, or the shards that the index names."""
    index = directory / WEIGHTS_INDEX
    if not index.is_file():
        if (directory / WEIGHTS).is_file():
            return [directory / WEIGHTS]
        if any(directory.glob("*.bin")) or any(directory.glob("*.pt*")):
            raise UnsupportedModel(
                "the directory has its weights as pickle (.bin, .pt): such a file can run code when it is opened, so "
                "Headway never opens one; use the safetensors version of the model"
            )
        raise ModelNotFound(f"the directory has neither {WEIGHTS} nor {WEIGHTS_INDEX}")
    shards = shard_names(read_object(index, MAX_TOKENIZER_BYTES))
    missing = [name for name in shards if not (directory / name).is_file()]
    if missing:
        raise ModelNotFound(f"the directory lacks the weights file {missing[0]}; fetch the model again")
    return [directory / name for name in shards]


def shard_names(index: dict[str, Any]) -> list[str]:
    """The shards that an index names, each checked to be a plain file name."""
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise MalformedModel(f"{WEIGHTS_INDEX} has no weight_map")
    names = sorted({json.dumps(name) if not isinstance(name, str) else name for name in weight_map.values()})
    for name in names:
        if not is_plain_name(name) or not name.endswith(".safetensors"):
            raise MalformedModel(f"{WEIGHTS_INDEX} names {name[:80]!r}, which is no safetensors file of the directory")
    if len(names) > _MAX_SHARDS:
        raise MalformedModel(f"{WEIGHTS_INDEX} names {len(names)} files; at most {_MAX_SHARDS} are allowed")
    return names


def is_plain_name(name: str) -> bool:
    """Whether `name` stays in its directory: no separators, no parent, nothing unprintable."""
    return bool(name) and name.isprintable() and not name.startswith(".") and not set(name) & set("/\\:")


def _optional(path: Path) -> dict[str, Any]:
    return read_object(path, MAX_TOKENIZER_BYTES) if path.is_file() else {}


def _highest_token_id(tokenizer: dict[str, Any]) -> int:
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    added = tokenizer.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise MalformedModel(f"{TOKENIZER} has added_tokens that are no tokens")
    ids: list[Any] = [token.get("id") for token in added]
    if isinstance(vocabulary, dict):
        ids += vocabulary.values()
    elif isinstance(vocabulary, list):
        ids.append(len(vocabulary) - 1)
    else:
        raise MalformedModel(f"{TOKENIZER} has no vocabulary")
    if not ids or not all(type(token_id) is int for token_id in ids):
        raise MalformedModel(f"{TOKENIZER} has token ids that are no integers")
    return int(max(ids))
