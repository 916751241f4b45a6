"""The fake scheduler's model: one token for each byte, and `END`, which ends a sequence."""

import functools
import json
import string

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from services.wire.execution import LogprobRows, ModelCard
from services.wire.message import float32_column, int32_column

END = 0
MODEL = "fake-model"
VOCAB_SIZE = 300
FINGERPRINT = "f00d"
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@functools.cache
def tokenizer_json() -> str:
    """A byte-level BPE without merges: one token for each byte, and one control token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: 1 + place for place, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab={"<end>": END, **vocabulary}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    return tokenizer.to_str()


@functools.cache
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_str(tokenizer_json())


def ids_of(text: str) -> list[int]:
    return _tokenizer().encode(text, add_special_tokens=False).ids


def letters(start: int, count: int) -> str:
    """What the model says from output number `start` on."""
    return "".join(string.ascii_lowercase[k % 26] for k in range(start, start + count))


def fake_card(**changes) -> ModelCard:
    values = {
        "name": MODEL,
        "fingerprint": FINGERPRINT,
        "numerics_digest": "d1",
        "batch_invariant": True,
        "context_length": 4096,
        "vocab_size": VOCAB_SIZE,
        "eos_ids": int32_column([END]),
        "tokenizer_json": tokenizer_json(),
        "chat_template": TEMPLATE,
        "special_tokens_json": json.dumps({"eos_token": "<end>"}),
        "max_logprobs": 5,
    }
    return ModelCard(**values | changes)


def logprob_rows(handle: int, rows: list[tuple[int, float, int, list[tuple[int, float]]]]) -> LogprobRows:
    """Columns of (position, logprob, rank, best ones)."""
    top = [pair for _, _, _, pairs in rows for pair in pairs]
    return LogprobRows(
        slots=int32_column([handle] * len(rows)),
        positions=int32_column([row[0] for row in rows]),
        chosen=float32_column([row[1] for row in rows]),
        ranks=int32_column([row[2] for row in rows]),
        top_counts=int32_column([len(row[3]) for row in rows]),
        top_ids=int32_column([token_id for token_id, _ in top]),
        top_logprobs=float32_column([logprob for _, logprob in top]),
    )
