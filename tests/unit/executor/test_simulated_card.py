"""The simulated model's card: its tokenizer is a real one for the `tokenizers` library."""

import json

import jinja2
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from services.executor.simulated_card import (
    CHAT_TEMPLATE,
    EOS_IDS,
    IM_END_ID,
    IM_START_ID,
    SPECIAL_TOKENS,
    VOCAB_SIZE,
    byte_tokenizer_json,
    simulated_card,
)

_TOKENIZER = Tokenizer.from_str(byte_tokenizer_json())


@given(st.text())
def test_a_token_is_a_byte(text):
    """Any text without special tokens encodes to its UTF-8 bytes, and comes back unchanged."""
    assert _TOKENIZER.get_vocab_size() == VOCAB_SIZE
    encoded = _TOKENIZER.encode(text, add_special_tokens=False).ids
    if not any(special in text for special in SPECIAL_TOKENS.values()):
        assert encoded == list(text.encode())
    assert _TOKENIZER.decode(encoded, skip_special_tokens=False) == text


def test_special_tokens_are_single_ids():
    """The ChatML marks are one token each, at the ids that the script uses."""
    for token_id, content in SPECIAL_TOKENS.items():
        assert _TOKENIZER.encode(content, add_special_tokens=False).ids == [token_id]
        assert _TOKENIZER.token_to_id(content) == token_id


def test_the_card_agrees_with_the_tokenizer():
    """Vocabulary, end tokens and template on the card are those of the tokenizer."""
    card = simulated_card("echo", 4096)
    assert card.vocab_size == VOCAB_SIZE
    assert card.eos_ids.tolist() == list(EOS_IDS)
    assert card.context_length == 4096
    assert json.loads(card.special_tokens_json)["eos_token"] == SPECIAL_TOKENS[IM_END_ID]


def test_the_template_is_chatml():
    """Rendered and encoded, a conversation begins each turn with the start mark."""
    text = jinja2.Template(CHAT_TEMPLATE).render(
        messages=[{"role": "user", "content": "hi"}], add_generation_prompt=True
    )
    ids = _TOKENIZER.encode(text, add_special_tokens=False).ids
    assert ids == [IM_START_ID, *b"user\nhi", IM_END_ID, *b"\n", IM_START_ID, *b"assistant\n"]


def test_another_script_is_another_model():
    """Fingerprints tell models apart: a stream may not go on under another script."""
    assert simulated_card("echo", 4096).fingerprint != simulated_card("random", 4096).fingerprint
    assert simulated_card("echo", 4096) == simulated_card("echo", 4096)
