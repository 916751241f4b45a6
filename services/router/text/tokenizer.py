"""A model's tokenizer, made from the model card: text to ids with control tokens recognised or not, and ids to text.

A *control token* is one that the model acts on instead of reading: each added token that the tokenizer calls special,
and the added tokens that begin or end a sequence, whatever the tokenizer calls them.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tokenizers

from services.router.text.errors import UnusableModel
from services.router.text.tokenizer_growth import check_growth
from services.wire.execution import ModelCard

MAX_TOKENIZER_BYTES = 256 * 2**20


class Tokenizer:
    """Immutable once made; every method may be called from any thread."""

    def __init__(self, card: ModelCard) -> None:
        # One text is encoded on one thread: the library's own pool would only take cores from other requests.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        document = _marked(_parsed(card.tokenizer_json), {*card.eos_ids.tolist(), card.bos_id})
        check_growth(document)
        # Two instances, because the switch between the two ways of encoding is mutable and shared by all threads.
        self._recognising = _loaded(document)
        self._plain = _loaded(document)
        self._plain.encode_special_tokens = True
        self.decoder: dict[str, Any] | None = document.get("decoder")
        added = self._recognising.get_added_tokens_decoder()
        self.control_ids = {
            token.content: token_id for token_id, token in added.items() if token.special and token.content
        }
        self.control_id_set = frozenset(self.control_ids.values())
        self.vocab_size = card.vocab_size
        self._check_vocabulary()

    def _check_vocabulary(self) -> None:
        largest = max(self._recognising.get_vocab(with_added_tokens=True).values(), default=-1)
        if largest < 0:
            raise UnusableModel("the tokenizer has no tokens")
        if largest >= self.vocab_size:
            raise UnusableModel(f"the tokenizer has token id {largest}, the model knows {self.vocab_size} tokens")

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; names of control tokens in it become those tokens. Nothing is put before or after."""
        return self._encode(self._recognising, text)

    def encode_plain(self, text: str) -> list[int]:
        """The ids of `text` with the names of control tokens in it spelled out like any other text."""
        ids = self._encode(self._plain, text)
        if self.control_id_set.isdisjoint(ids):
            return ids
        # A vocabulary that lists its control tokens as words (Unigram does) can find one by its spelling alone:
        # halves of the text cannot spell it.
        if len(text) == 1:
            return [token_id for token_id in ids if token_id not in self.control_id_set]
        middle = len(text) // 2
        return self.encode_plain(text[:middle]) + self.encode_plain(text[middle:])

    @staticmethod
    def _encode(tokenizer: tokenizers.Tokenizer, text: str) -> list[int]:
        # The batch call, for a batch of one: it alone lets other threads run while it works.
        with _panics_named("the tokenizer fails on this text"):
            ids: list[int] = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of all of `token_ids` together."""
        with _panics_named("the tokenizer fails on these tokens"):
            text: str = self._recognising.decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text

    def token(self, token_id: int) -> str | None:
        """The vocabulary's own spelling of a token; None for an id that the tokenizer does not have."""
        spelling: str | None = self._recognising.id_to_token(token_id)
        return spelling


def _parsed(tokenizer_json: str) -> dict[str, Any]:
    if not tokenizer_json:
        raise UnusableModel("the model has no tokenizer")
    if len(tokenizer_json) > MAX_TOKENIZER_BYTES:
        raise UnusableModel("the tokenizer is too large")
    try:
        document = json.loads(tokenizer_json)
    except (ValueError, RecursionError) as error:
        raise UnusableModel(f"the tokenizer is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UnusableModel("the tokenizer is not a JSON object")
    return document


def _marked(document: dict[str, Any], control_ids: set[int]) -> dict[str, Any]:
    """The tokenizer with each of `control_ids` among its added tokens called special."""
    added = document.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise UnusableModel("the tokenizer's added tokens are not a list of objects")
    marked = [{**token, "special": True} if token.get("id") in control_ids else token for token in added]
    # Prompts are never cut or padded behind the client's back.
    return {**document, "added_tokens": marked, "truncation": None, "padding": None}


def _loaded(document: dict[str, Any]) -> tokenizers.Tokenizer:
    with _panics_named("the tokenizer cannot be read"):
        return tokenizers.Tokenizer.from_str(json.dumps(document))


@contextmanager
def _panics_named(what: str) -> Iterator[None]:
    """Puts the library's failures in our words. Its panics are BaseExceptions that no service expects."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # it raises nothing narrower
        raise UnusableModel(f"{what}: {error}") from error
