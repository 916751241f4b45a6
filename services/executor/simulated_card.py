"""The model card of the simulated executor: a byte-level tokenizer and the ChatML template, made here in code.

Token id = byte value below 256; the three special tokens follow. The tokenizer is the `tokenizers` library's own JSON
format (a BPE without merges over the byte alphabet of GPT-2), so that a router serves text on it like on a real model.
"""

import json
from hashlib import blake2b

from services.executor.weights.tokenizers_format import added_token, bpe, byte_level, tokenizer
from services.wire.execution import ModelCard
from services.wire.message import int32_column

END_OF_TEXT_ID = 256
IM_START_ID = 257
IM_END_ID = 258
VOCAB_SIZE = 259
SPECIAL_TOKENS = {END_OF_TEXT_ID: "<|endoftext|>", IM_START_ID: "<|im_start|>", IM_END_ID: "<|im_end|>"}
EOS_IDS = (END_OF_TEXT_ID, IM_END_ID)
MAX_LOGPROBS = 20

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def simulated_card(script: str, context_length: int) -> ModelCard:
    """The card of the simulated model that answers by `script`."""
    tokenizer_json = byte_tokenizer_json()
    fingerprint = blake2b(f"simulated {script}\n{tokenizer_json}{CHAT_TEMPLATE}".encode(), digest_size=16).hexdigest()
    return ModelCard(
        name=f"simulated-{script}",
        fingerprint=fingerprint,
        numerics_digest=blake2b(f"{fingerprint} simulated".encode(), digest_size=16).hexdigest(),
        batch_invariant=True,
        context_length=context_length,
        vocab_size=VOCAB_SIZE,
        eos_ids=int32_column(EOS_IDS),
        tokenizer_json=tokenizer_json,
        chat_template=CHAT_TEMPLATE,
        special_tokens_json=json.dumps({"eos_token": SPECIAL_TOKENS[IM_END_ID]}),
        max_logprobs=MAX_LOGPROBS,
    )


def byte_tokenizer_json() -> str:
    """A tokenizer with one token for each byte, in the format of the `tokenizers` library."""
    added = [added_token(token_id, content, special=True) for token_id, content in SPECIAL_TOKENS.items()]
    vocab = {letter: byte for byte, letter in enumerate(_byte_letters())}
    vocab |= {content: token_id for token_id, content in SPECIAL_TOKENS.items()}
    letters = byte_level(use_regex=False)
    whole = tokenizer(
        added, normalizer=None, pre_tokenizer=letters, post_processor=None, decoder=letters, model=bpe(vocab, ())
    )
    return json.dumps(whole)


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary.

    Visible Latin-1 characters stand for themselves; the others take the code points from 256 on, in order.
    """
    hidden = iter(range(256, 512))
    return [chr(byte) if _is_visible(byte) else chr(next(hidden)) for byte in range(256)]


def _is_visible(byte: int) -> bool:
    return 0x21 <= byte <= 0x7E or (byte >= 0xA1 and byte != 0xAD)  # 0xAD is the soft hyphen
