"""A scheduler client: the calls of one channel to a scheduler, in messages of `services.wire`."""

from typing import Any, Self, TypeVar

import grpc.aio

from services.wire.codec import decode, encode
from services.wire.message import Message
from services.wire.scheduling import (
    CancelByIdRequest,
    CancelByIdResponse,
    ExplainByIdRequest,
    ExplainByIdResponse,
    GetModelCardRequest,
    GetModelCardResponse,
)

_SERVICE = "/headway.internal.v1.Scheduling/"
_CARD_TIMEOUT_S = 30.0
_QUESTION_TIMEOUT_S = 5.0
_OPTIONS = (
    ("grpc.max_receive_message_length", 512 * 1024 * 1024),  # a model card holds a whole tokenizer
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection, not the backoff of the last one
    ("grpc.keepalive_time_ms", 60_000),
)

M = TypeVar("M", bound=Message)


class SchedulerClient:
    """An asynchronous context. Every method raises `AioRpcError`, or `InvalidMessage` for an answer that is none."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    def attach(self) -> Any:
        """A new Attach call, in raw frames."""
        return self._channel.stream_stream(f"{_SERVICE}Attach")()

    async def get_model_card(self) -> GetModelCardResponse:
        return await self._ask("GetModelCard", GetModelCardRequest(), GetModelCardResponse, _CARD_TIMEOUT_S)

    async def explain(self, question: ExplainByIdRequest) -> ExplainByIdResponse:
        return await self._ask("Explain", question, ExplainByIdResponse, _QUESTION_TIMEOUT_S)

    async def cancel_by_id(self, question: CancelByIdRequest) -> CancelByIdResponse:
        return await self._ask("CancelById", question, CancelByIdResponse, _QUESTION_TIMEOUT_S)

    async def _ask(self, method: str, question: Message, answer: type[M], timeout_s: float) -> M:
        call: Any = self._channel.unary_unary(f"{_SERVICE}{method}")
        data: bytes = await call(encode(question), timeout=timeout_s)
        return decode(answer, data)
