"""Each back end against Hugging Face transformers, family by family, on tiny random weights read from their files."""

import json

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from services.executor.loading import build_engine
from services.executor.settings import ExecutorSettings
from services.wire.execution import Sampling
from tests.support.steps import Request, run

VOCAB = 300
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 112,
    "max_position_embeddings": 512,
    "initializer_range": 0.15,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
FAMILIES = {
    "llama2": ("Llama", {"num_key_value_heads": 8, "tie_word_embeddings": False}),
    "llama-biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": False}),
    "llama3-tied": ("Llama", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": True}),
    "llama-linear": ("Llama", {"rope_parameters": LINEAR_ROPE}),
    "smollm2": (
        "Llama",
        {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 144, "tie_word_embeddings": True},
    ),
    "one-kv-head": ("Llama", {"num_attention_heads": 32, "num_key_value_heads": 1, "head_dim": 16}),
    "mistral": ("Mistral", {"sliding_window": None, "head_dim": 32}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2-untied": ("Qwen2", {"tie_word_embeddings": False}),
    "qwen3": ("Qwen3", {"head_dim": 48, "tie_word_embeddings": False}),
    "qwen3-tied": ("Qwen3", {"head_dim": 48, "tie_word_embeddings": True, "rope_parameters": YARN_ROPE}),
}


def save_model(directory, family, changes):
    """A model of random weights in Hugging Face's format, biases and norms included; returns the oracle."""
    torch.manual_seed(7)
    config = getattr(transformers, f"{family}Config")(**(SHAPE | changes))
    oracle = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for name, parameter in oracle.named_parameters():
        if name.endswith(".bias") or "norm" in name:
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.2)
    oracle.save_pretrained(directory)
    Tokenizer(WordLevel({f"t{i}": i for i in range(VOCAB)}, "t0")).save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return oracle


@pytest.fixture(scope="module", params=list(FAMILIES))
def saved(request, tmp_path_factory):
    """(transformers' model, the directory that it was saved in)."""
    directory = tmp_path_factory.mktemp(request.param)
    return save_model(directory, *FAMILIES[request.param]), directory


@pytest.fixture(scope="module", params=["reference", "cpu"])
def pair(request, saved):
    """(transformers' model, our engine on the same files)."""
    oracle, directory = saved
    settings = ExecutorSettings(
        model=str(directory),
        backend=request.param,
        dtype="float32",
        kv_pool_tokens=1024,
        max_slots=8,
        max_step_tokens=512,
    )
    return oracle, build_engine(settings)


def prompt(length, seed):
    return np.random.default_rng(seed).integers(3, VOCAB, length).tolist()


def greedy(oracle, tokens, count):
    """What transformers generates, the whole sequence computed anew for each token."""
    tokens = list(tokens)
    for _ in range(count):
        with torch.inference_mode():
            tokens.append(int(oracle(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[-count:]


def test_greedy_tokens_are_those_of_transformers(pair):
    """Prompts short and long, together: twelve tokens of each are equal."""
    oracle, engine = pair
    prompts = [prompt(length, length) for length in (1, 16, 45, 200)]
    requests = [Request(tokens, 12, Sampling(temperature=0.0, ignore_eos=True)) for tokens in prompts]
    run(engine, requests)
    assert [request.outputs for request in requests] == [greedy(oracle, tokens, 12) for tokens in prompts]


def test_logits_are_within_a_ten_thousandth_of_transformers(pair):
    """The log-probability of every token of the vocabulary, at every position of a long prompt."""
    oracle, engine = pair
    tokens = prompt(300, 5)
    results = run(engine, [Request(tokens, 0, Sampling(temperature=0.0, prompt_logprobs=VOCAB))], chunk=128)
    with torch.inference_mode():
        expected = torch.log_softmax(oracle(torch.tensor([tokens])).logits[0, :-1], dim=-1)
    rows = [result.prompt_logprobs for result in results if result.prompt_logprobs]
    ids = np.concatenate([row.top_ids for row in rows]).reshape(-1, VOCAB)
    logprobs = np.concatenate([row.top_logprobs for row in rows]).reshape(-1, VOCAB)
    by_id = np.empty_like(logprobs)
    np.put_along_axis(by_id, ids, logprobs, axis=1)
    assert by_id.shape == (299, VOCAB)
    np.testing.assert_allclose(by_id, expected.numpy(), atol=1e-4, rtol=0)
