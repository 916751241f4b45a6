"""The limits that a request is held against: the model's, the KV pool's and the router's own."""

from dataclasses import dataclass

from headway.v1 import inference_pb2 as api

from services.router.settings import RouterSettings
from services.wire.execution import ModelCard
from services.wire.scheduling import SchedulerHello


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Field for field `headway.v1.ModelLimits`."""

    context_length: int
    vocab_size: int
    kv_pool_tokens: int
    max_request_tokens: int
    default_max_tokens: int
    max_logprobs: int
    max_n: int
    max_stop_strings: int
    max_prompt_bytes: int
    block_size: int

    @classmethod
    def of(cls, card: ModelCard, hello: SchedulerHello, settings: RouterSettings) -> "Limits":
        return cls(
            context_length=card.context_length,
            vocab_size=card.vocab_size,
            kv_pool_tokens=hello.pool_tokens,
            max_request_tokens=min(hello.max_request_tokens, card.context_length),
            default_max_tokens=hello.default_max_tokens,
            max_logprobs=card.max_logprobs,
            max_n=settings.max_n,
            max_stop_strings=settings.max_stop_strings,
            max_prompt_bytes=settings.max_prompt_bytes,
            block_size=hello.block_size,
        )

    def to_proto(self) -> api.ModelLimits:
        return api.ModelLimits(**{name: getattr(self, name) for name in self.__slots__})
