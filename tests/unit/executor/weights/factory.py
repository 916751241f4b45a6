"""Tiny models for tests: random weights of every family, a byte-level tokenizer, and GGUF files written from them."""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

VOCAB_SIZE = 288
SPECIALS = ("<|im_start|>", "<|im_end|>")
TINY = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 257,
}
FAMILIES = {
    "llama": {"model_type": "llama"},
    "llama3": {
        "model_type": "llama",
        "attention_bias": True,
        "mlp_bias": True,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128,
        },
    },
    "mistral": {"model_type": "mistral", "sliding_window": 64, "head_dim": 16},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", "head_dim": 64},
}


def tiny_model(family: str) -> PreTrainedModel:
    """A model of random float32 weights, biases and norms included."""
    values = TINY | FAMILIES[family]
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**values), dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3)
    return model.eval()


def byte_tokenizer() -> Tokenizer:
    """All 256 bytes, two specials and two merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: token_id for token_id, token in enumerate([*alphabet, *SPECIALS, "he", "ll", "hell"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[("h", "e"), ("l", "l"), ("he", "ll")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIALS))
    return tokenizer


def save_directory(model: PreTrainedModel, directory: Path, *, max_shard_size: str = "1GB") -> Path:
    """The model as a Hugging Face directory with tokenizer and template."""
    model.save_pretrained(directory, max_shard_size=max_shard_size)
    (directory / "tokenizer.json").write_text(byte_tokenizer().to_str())
    values = {"chat_template": "{{ messages }}", "bos_token": {"content": SPECIALS[0]}, "eos_token": SPECIALS[1]}
    (directory / "tokenizer_config.json").write_text(json.dumps(values))
    return directory


def metadata_of(writer: gguf.GGUFWriter, model: PreTrainedModel) -> None:
    """Writes what a converter writes of the model's config and of `byte_tokenizer`."""
    config = model.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    state = json.loads(byte_tokenizer().to_str())
    tokens = sorted(state["model"]["vocab"], key=state["model"]["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIALS else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in state["model"]["merges"]])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_chat_template("{{ messages }}")


def save_gguf(model: PreTrainedModel, path: Path, kind: str = "F32", *, architecture: str = "") -> Path:
    """The model as GGUF, matrices stored as `kind`."""
    architecture = architecture or {"mistral": "llama"}.get(model.config.model_type, model.config.model_type)
    writer = gguf.GGUFWriter(path, architecture)
    metadata_of(writer, model)
    quant = gguf.GGMLQuantizationType[kind]
    for name, tensor in gguf_tensors(model, architecture).items():
        stored = quant if tensor.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(tensor, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_tensors(model: PreTrainedModel, architecture: str) -> dict[str, np.ndarray]:
    """The weights under GGUF's names, in the row order of its converters."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture.upper()], model.config.num_hidden_layers)
    tensors = {}
    for name, parameter in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        values = parameter.numpy()
        if architecture == "llama" and ".q_proj." in name:
            values = interleaved(values, model.config.num_attention_heads)
        elif architecture == "llama" and ".k_proj." in name:
            values = interleaved(values, model.config.num_key_value_heads)
        tensors[names.get_name(name, try_suffixes=(".weight", ".bias"))] = values
    rope = model.config.rope_parameters
    if rope.get("rope_type") == "llama3":
        plain = rope["rope_theta"] ** (-np.arange(0, 32, 2, dtype=np.float32) / 32)
        tensors["rope_freqs.weight"] = (plain / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32)[:16]
    return tensors


def interleaved(values: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows in the order of llama.cpp's converter: the two halves of a rotary pair side by side."""
    halves = values.reshape(num_heads, 2, values.shape[0] // num_heads // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))
