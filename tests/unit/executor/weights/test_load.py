"""Models come out of both formats as they went in."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from services.executor.weights.errors import MalformedModel, ModelNotFound, UnsupportedModel
from services.executor.weights.load import load_model
from services.executor.weights.loaded_model import LoadedModel
from tests.support.oracle import Oracle
from tests.unit.executor.weights import factory

MODULES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "q",
    "self_attn.k_proj": "k",
    "self_attn.v_proj": "v",
    "self_attn.o_proj": "o",
    "self_attn.q_norm": "q_norm",
    "self_attn.k_norm": "k_norm",
    "post_attention_layernorm": "mlp_norm",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
}


def canonical(model) -> dict[str, torch.Tensor]:
    """The weights of a transformers model by Headway's names."""
    top = {
        "model.embed_tokens.weight": "embed.weight",
        "model.norm.weight": "final_norm.weight",
        "lm_head.weight": "lm_head.weight",
    }
    tensors = {}
    for name, tensor in model.state_dict().items():
        if name in top:
            tensors[top[name]] = tensor
            continue
        _, _, index, *module, kind = name.split(".")
        tensors[f"layers.{index}.{MODULES['.'.join(module)]}.{kind}"] = tensor
    if model.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    return tensors


def assert_same(loaded: LoadedModel, model, atol: float = 0.0) -> None:
    """Every tensor of `model` is in `loaded`, and no other."""
    wanted = canonical(model)
    assert loaded.tensors.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.allclose(loaded.tensors[name].float(), tensor, rtol=0, atol=atol), name


@pytest.mark.parametrize("family", factory.FAMILIES)
@pytest.mark.parametrize("shard_size", ["1GB", "400KB"])
def test_a_directory_gives_the_weights_that_were_saved(tmp_path: Path, family: str, shard_size: str) -> None:
    """Each family's weights come out of one file and of shards bit for bit."""
    model = factory.tiny_model(family)
    directory = factory.save_directory(model, tmp_path / "tiny", max_shard_size=shard_size)
    assert (len(list(directory.glob("*.safetensors"))) > 1) == (shard_size != "1GB")
    loaded = load_model(directory, torch.float32)
    assert_same(loaded, model)
    assert loaded.name == "tiny"
    assert loaded.config.eos_ids == (257,)


@pytest.mark.parametrize("family", factory.FAMILIES)
def test_a_gguf_file_gives_the_weights_that_were_written(tmp_path: Path, family: str) -> None:
    """Each family's weights come out of GGUF in Hugging Face's rotary layout, frequencies included."""
    model = factory.tiny_model(family)
    loaded = load_model(factory.save_gguf(model, tmp_path / "tiny.gguf"), torch.float32)
    assert_same(loaded, model)
    assert loaded.name == "tiny"
    frequencies = np.array(loaded.config.inverse_frequencies(), np.float32)
    assert np.allclose(frequencies, model.model.rotary_emb.inv_freq.numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "atol"), [("F16", 1e-3), ("BF16", 8e-3), ("Q8_0", 0.01), ("Q4_0", 0.25), ("Q4_1", 0.15)]
)
def test_a_quantized_gguf_file_gives_weights_near_the_ones_written(tmp_path: Path, kind: str, atol: float) -> None:
    """Each type that can be written is read: exactly as gguf dequantizes it, and near the originals."""
    model = factory.tiny_model("llama")
    loaded = load_model(factory.save_gguf(model, tmp_path / "tiny.gguf", kind), torch.float32)
    assert_same(loaded, model, atol)
    down = canonical(model)["layers.1.down.weight"].numpy()
    quant = gguf.GGMLQuantizationType[kind]
    exact = gguf.quants.dequantize(gguf.quants.quantize(down, quant), quant)
    assert np.array_equal(loaded.tensors["layers.1.down.weight"].numpy(), exact)


def q4_k_value(block: bytes, index: int) -> float:
    """Element `index` of a Q4_K block, by the letter of the format: 8 groups of 32 with 6-bit scales and minima."""
    scale, minimum = np.frombuffer(block[:4], np.float16).astype(np.float32)
    packed, group = block[4:16], index // 32
    if group < 4:
        s, m = packed[group] & 63, packed[group + 4] & 63
    else:
        s = (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4
        m = (packed[group + 4] >> 4) | (packed[group] >> 6) << 4
    byte = block[16 + index // 64 * 32 + index % 32]
    nibble = byte & 15 if group % 2 == 0 else byte >> 4
    return scale * s * nibble - minimum * m


def q6_k_value(block: bytes, index: int) -> float:
    """Element `index` of a Q6_K block, by the letter of the format: 16 groups of 16 with 8-bit scales."""
    low, high, scales = block[:128], block[128:192], np.frombuffer(block[192:208], np.int8)
    scale = np.frombuffer(block[208:], np.float16).astype(np.float32)[0]
    half, rest = divmod(index, 128)
    quarter, column = divmod(rest, 32)
    nibble = low[half * 64 + quarter % 2 * 32 + column] >> (4 * (quarter // 2)) & 15
    bits = nibble | (high[half * 32 + column] >> (2 * quarter) & 3) << 4
    return scale * scales[index // 16] * (bits - 32)


@pytest.mark.parametrize(("kind", "value"), [("Q4_K", q4_k_value), ("Q6_K", q6_k_value)])
def test_k_quants_mean_what_their_format_says(tmp_path: Path, monkeypatch, kind: str, value) -> None:
    """Random blocks of the K types, which gguf cannot write, are read as a plain transcription of the format reads them."""
    quant = gguf.GGMLQuantizationType[kind]
    size = gguf.GGML_QUANT_SIZES[quant][1]
    random = np.random.default_rng(3)

    def blocks(tensor: np.ndarray, stored: gguf.GGMLQuantizationType) -> np.ndarray:
        if stored != quant:
            return tensor.astype(np.float32)
        data = random.integers(0, 256, (*tensor.shape[:-1], tensor.shape[-1] // 256, size), np.uint8)
        scales = random.normal(0, 0.01, (*data.shape[:-1], 2)).astype(np.float16).view(np.uint8)
        if kind == "Q4_K":
            data[..., :4] = scales
        else:
            data[..., 208:] = scales[..., :2]
        written.append(data.reshape(-1, size))
        return data.reshape(*tensor.shape[:-1], -1)

    written: list[np.ndarray] = []
    monkeypatch.setattr(gguf.quants, "quantize", blocks)
    loaded = load_model(factory.save_gguf(factory.tiny_model("qwen3"), tmp_path / "k.gguf", kind), torch.float32)
    embedding = loaded.tensors["embed.weight"].reshape(-1, 256)
    for row in (0, 1, 200):
        block = written[0][row].tobytes()
        wanted = [value(block, index) for index in range(256)]
        assert np.allclose(embedding[row].numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_weights_come_in_the_dtype_asked_for(tmp_path: Path) -> None:
    """bfloat16 and float16 are conversions of the float32 weights."""
    model = factory.tiny_model("llama")
    directory = factory.save_directory(model, tmp_path / "tiny")
    for dtype in (torch.bfloat16, torch.float16):
        loaded = load_model(directory, dtype)
        assert all(tensor.dtype == dtype and tensor.is_contiguous() for tensor in loaded.tensors.values())
        assert torch.equal(loaded.tensors["embed.weight"], model.model.embed_tokens.weight.to(dtype))


def test_the_card_says_what_routers_need(tmp_path: Path) -> None:
    """Tokenizer, template, special tokens and limits come from the files; the fingerprint follows their bytes."""
    directory = factory.save_directory(factory.tiny_model("llama"), tmp_path / "tiny")
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": [257, 3]}))
    loaded = load_model(directory, torch.float32)
    card = loaded.card(numerics_digest="ab", batch_invariant=True, context_length=100)
    assert (card.name, card.context_length, card.vocab_size, card.bos_id) == ("tiny", 100, factory.VOCAB_SIZE, -1)
    assert card.eos_ids.tolist() == [257, 3]
    assert json.loads(card.special_tokens_json) == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    assert Tokenizer.from_str(card.tokenizer_json).encode("hello").tokens == ["hell", "o"]
    assert card.chat_template == "{{ messages }}"
    (directory / "chat_template.jinja").write_text("new")
    changed = load_model(directory, torch.float32)
    assert (changed.chat_template, changed.fingerprint == loaded.fingerprint) == ("new", False)


def test_what_is_wrong_with_a_directory_is_said(tmp_path: Path) -> None:
    """Missing tensors, extra tensors, wrong shapes, odd types and broken numbers are each refused by name."""
    directory = factory.save_directory(factory.tiny_model("llama"), tmp_path / "tiny")
    whole = load_file(directory / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    broken = whole[name].clone()
    broken[3, 3] = torch.nan
    cases = [
        ({key: value for key, value in whole.items() if key != name}, MalformedModel, "lacks.*up_proj"),
        (whole | {"model.vision.weight": torch.zeros(1)}, MalformedModel, "unknown.*vision"),
        (whole | {name: torch.zeros(2, 3)}, MalformedModel, "shape"),
        (whole | {name: whole[name].double()}, UnsupportedModel, "F64"),
        (whole | {name: broken}, MalformedModel, "not finite"),
    ]
    for tensors, error, words in cases:
        save_file(tensors, directory / "model.safetensors")
        with pytest.raises(error, match=words):
            load_model(directory, torch.float32)
    (directory / "model.safetensors").write_bytes(b"\x10" + bytes(40))
    with pytest.raises(MalformedModel, match="not a whole safetensors file"):
        load_model(directory, torch.float32)


def test_numbers_that_a_dtype_cannot_hold_are_refused(tmp_path: Path) -> None:
    """A weight beyond float16's range is an error at load, not an infinity in the logits."""
    model = factory.tiny_model("llama")
    with torch.no_grad():
        model.model.norm.weight[0] = 1e6
    path = factory.save_gguf(model, tmp_path / "tiny.gguf")
    load_model(path, torch.float32)
    with pytest.raises(MalformedModel, match=r"output_norm.*float16"):
        load_model(path, torch.float16)


def test_tied_checkpoints_may_carry_their_head_along(tmp_path: Path) -> None:
    """A stored lm_head of a tied model is ignored, as transformers ignores it."""
    directory = factory.save_directory(factory.tiny_model("qwen2"), tmp_path / "tiny")
    tensors = load_file(directory / "model.safetensors")
    save_file(tensors | {"lm_head.weight": torch.zeros(1, 1)}, directory / "model.safetensors")
    assert "lm_head.weight" not in load_model(directory, torch.float32).tensors


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    """A directory with .bin weights alone is refused with the reason."""
    directory = factory.save_directory(factory.tiny_model("llama"), tmp_path / "tiny")
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    with pytest.raises(UnsupportedModel, match="can run code"):
        load_model(directory, torch.float32)


def test_a_path_that_is_no_model_is_named(tmp_path: Path) -> None:
    """Nothing there, and a file of some other kind, are told apart."""
    with pytest.raises(ModelNotFound, match="gone does not exist"):
        load_model(tmp_path / "gone", torch.float32)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelNotFound, match="neither a directory nor a GGUF"):
        load_model(tmp_path / "notes.txt", torch.float32)


@pytest.mark.model
def test_the_default_model_makes_sense(loaded_default_model: LoadedModel) -> None:
    """The real Q4_1 file, its weights put into transformers' Llama, answers a question that needs every layer to be right."""
    tokenizer = Tokenizer.from_str(loaded_default_model.tokenizer_json)
    prompt = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    answer = Oracle(loaded_default_model).continuation(tokenizer.encode(prompt).ids, 10)
    assert "The capital of France is Paris." in tokenizer.decode(answer.tokens)
