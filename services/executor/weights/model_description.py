"""A model without its weights: its config, and what router and scheduler must know of it. Needs no torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from services.executor.models.config import DecoderConfig
from services.executor.weights.beginning import beginning_id
from services.wire.execution import ModelCard
from services.wire.message import int32_column


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    config: DecoderConfig
    name: str
    fingerprint: str  # hex; equal for equal weights, tokenizer and template
    tokenizer_json: str
    chat_template: str
    special_tokens: Mapping[str, str]

    def card(
        self, *, numerics_digest: str, batch_invariant: bool, context_length: int | None = None, max_logprobs: int = 20
    ) -> ModelCard:
        """The card that goes to scheduler and routers; `context_length` may only shorten the model's own."""
        longest = self.config.context_length
        return ModelCard(
            name=self.name,
            fingerprint=self.fingerprint,
            numerics_digest=numerics_digest,
            batch_invariant=batch_invariant,
            context_length=longest if context_length is None else min(context_length, longest),
            vocab_size=self.config.vocab_size,
            eos_ids=int32_column(self.config.eos_ids),
            bos_id=beginning_id(self.tokenizer_json, self.config.vocab_size),
            tokenizer_json=self.tokenizer_json,
            chat_template=self.chat_template,
            special_tokens_json=json.dumps(dict(self.special_tokens), ensure_ascii=False),
            max_logprobs=max_logprobs,
        )
