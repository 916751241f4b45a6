"""A text begins with the token that its model's tokenizer puts there, and with none where it puts none."""

import json
from pathlib import Path

import pytest
import torch
from headway.v1 import inference_pb2 as api
from tokenizers import Tokenizer as HfTokenizer
from tokenizers import processors
from transformers import AutoTokenizer

from services.executor.weights.beginning import NONE, beginning_id
from services.executor.weights.errors import MalformedModel
from services.executor.weights.load import load_model
from services.router.text.prompt import PromptLimits, PromptRenderer
from services.router.text.tokenizer import Tokenizer
from tests.unit.executor.weights import factory

TEXTS = ("hello", " hell and high water", "안녕 👍🏽", "x")
BOS = factory.SPECIALS[0]
TEMPLATE = processors.TemplateProcessing(
    single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, factory.VOCAB_SIZE - 32)]
)


def read_by_router(model, texts):
    """The tokens of prompts that are one text each, made by the router from the card alone."""
    card = model.card(numerics_digest="00", batch_invariant=True)
    renderer = PromptRenderer(Tokenizer(card), None, bos_id=card.bos_id, limits=PromptLimits())
    return [renderer.render(api.PartsPrompt(parts=[api.Part(text=text)])).tolist() for text in texts]


def adds(tokenizer, processor):
    tokenizer.post_processor = processor
    return tokenizer


@pytest.mark.parametrize(
    ("family", "processor", "begins"),
    [
        ("llama", TEMPLATE, True),
        ("llama", processors.Sequence([processors.ByteLevel(), TEMPLATE]), True),
        ("qwen2", processors.ByteLevel(trim_offsets=False), False),
        ("qwen2", None, False),
    ],
)
@pytest.mark.parametrize("stated", [None, True, False])
def test_a_directory_begins_texts_as_transformers_does(tmp_path: Path, family, processor, begins, stated) -> None:
    """Llama's tokenizer adds its token, Qwen2's none, although both configs name one and whatever `add_bos_token` says."""
    directory = factory.save_directory(factory.tiny_model(family), tmp_path / "tiny")
    tokenizer = adds(factory.byte_tokenizer(), processor) if processor else factory.byte_tokenizer()
    (directory / "tokenizer.json").write_text(tokenizer.to_str())
    names = {"bos_token": BOS, "eos_token": factory.SPECIALS[1]}
    values = names | ({} if stated is None else {"add_bos_token": stated})
    (directory / "tokenizer_config.json").write_text(json.dumps(values))
    model, theirs = load_model(directory, torch.float32), AutoTokenizer.from_pretrained(directory)
    ids = read_by_router(model, TEXTS)
    assert ids == [theirs(text).input_ids for text in TEXTS]
    assert (ids[0][0] == 256) == begins


@pytest.mark.model
def test_the_default_model_begins_texts_as_transformers_does(loaded_default_model, default_tokenizers) -> None:
    """Its file names a token and says that it is not added: a text is its own tokens and no more."""
    _, theirs = default_tokenizers
    texts = (*TEXTS, "Hello", "The capital of France is")
    assert read_by_router(loaded_default_model, texts) == [theirs(text).input_ids for text in texts]


def test_every_post_processor_of_the_library_is_understood() -> None:
    """Templates, BERT's and RoBERTa's ways, sequences of them: what the library adds first is what is found."""
    kinds = [
        TEMPLATE,
        processors.RobertaProcessing((factory.SPECIALS[1], 257), (BOS, 256)),
        processors.BertProcessing((factory.SPECIALS[1], 257), (BOS, 256)),
        processors.ByteLevel(),
        processors.Sequence([processors.ByteLevel()]),
        processors.TemplateProcessing(single="$A <|im_end|>", special_tokens=[("<|im_end|>", 257)]),
    ]
    for kind in kinds:
        text = adds(factory.byte_tokenizer(), kind).to_str()
        first = HfTokenizer.from_str(text).encode("h").ids[0]
        assert beginning_id(text, factory.VOCAB_SIZE) == (first if first == 256 else NONE), kind


@pytest.mark.parametrize("ids", [[-1], [5000], ["x"], [True], [], None])
def test_a_beginning_that_is_no_token_is_refused(ids) -> None:
    """A number outside the vocabulary would reach past the model's embeddings."""
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    processor = {"type": "TemplateProcessing", "single": single, "special_tokens": {"<s>": {"ids": ids}}}
    with pytest.raises(MalformedModel, match="no token of the model"):
        beginning_id(json.dumps({"post_processor": processor}), 288)
