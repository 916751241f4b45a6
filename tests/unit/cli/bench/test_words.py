import pytest
from tokenizers import Tokenizer

from services.cli.bench.words import WORDS
from services.executor.weights.gguf_file import GgufFile
from services.executor.weights.gguf_tokenizer import tokenizer_json


def test_there_are_256_different_words():
    """A word's number fits a byte, so that the byte vocabulary of a simulated model can send it as a token id."""
    assert len(WORDS) == len(set(WORDS)) == 256
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)


@pytest.mark.model
def test_each_word_is_one_token_of_the_default_model(default_model):
    """A prompt of n words has n tokens, so that lengths are what the workload says."""
    with GgufFile(default_model) as file:
        tokenizer = Tokenizer.from_str(tokenizer_json(file.metadata))
    assert [word for word in WORDS if len(tokenizer.encode(word).ids) != 1] == []
    assert len(tokenizer.encode(" ".join(WORDS)).ids) == len(WORDS)
