"""Headway itself as a target, over its gRPC API. Nothing is tried again: a refusal is a result."""

from collections.abc import Sequence
from typing import Self

from headway.client import AsyncClient, HeadwayError, InvalidRequest, Overloaded, Params, Prompt, RetryPolicy

from services.cli.bench.result import Record
from services.cli.bench.target import (
    FIRST_ID,
    Answer,
    Broken,
    Clock,
    Exchange,
    Facts,
    Prompts,
    Refused,
    chat_of,
    ids_of,
    text_of,
)
from services.cli.bench.workload import NUM_WORDS, Request

_ONCE = RetryPolicy(max_attempts=1)
_FACTS_TIMEOUT_S = 10.0


class GrpcTarget:
    """A server of `headway.v1.Inference`."""

    def __init__(self, address: str, *, model: str, prompts: Prompts) -> None:
        self._address = address
        self._model = model
        self._prompts = prompts
        self._first_id = 0

    async def __aenter__(self) -> Self:
        self._client = AsyncClient(self._address, retry=_ONCE)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def facts(self) -> Facts:
        try:
            model = await self._client.model(self._model, timeout_s=_FACTS_TIMEOUT_S)
        except HeadwayError as error:
            raise Broken(str(error)) from None
        if model.limits.vocab_size >= FIRST_ID + NUM_WORDS:
            self._first_id = FIRST_ID
        details: dict[str, str | int | bool] = {
            "fingerprint": model.fingerprint,
            "numerics_digest": model.numerics_digest,
            "batch_invariant": model.batch_invariant,
            "kv_pool_tokens": model.limits.kv_pool_tokens,
            "context_length": model.limits.context_length,
        }
        return Facts("headway gRPC", self._address, model.name, details)

    async def send(self, request: Request, before: Sequence[Exchange], record: Record, clock: Clock) -> Answer:
        answer, length = Answer(), request.output_tokens
        params = self._drawn(request) | Params(min_tokens=length, max_tokens=length, ignore_eos=True)
        stream = self._client.generate(self._prompt(request, before), **params)
        try:
            async with stream:
                async for delta in stream:
                    if delta.token_ids:
                        record.message_s.append(clock.now_s())
                        record.message_tokens.append(len(delta.token_ids))
                        answer.token_ids += delta.token_ids
                    if delta.finished is not None:
                        usage = delta.finished.usage
                        record.input_tokens, record.output_tokens = usage.prompt_tokens, usage.completion_tokens
                        record.cached_tokens = usage.cached_tokens
        except Overloaded as error:
            raise (Broken if record.message_s else Refused)(str(error)) from None
        except InvalidRequest as error:
            raise Broken(f"not to be served as it is: {error}") from None
        except HeadwayError as error:
            raise Broken(str(error)) from None
        answer.text = stream.text
        return answer

    def _drawn(self, _request: Request) -> Params:
        """By which model, and how, an answer is drawn; its length is the workload's."""
        return {"model": self._model, "temperature": 0.0}

    def _prompt(self, request: Request, before: Sequence[Exchange]) -> Prompt:
        if self._prompts == "ids":
            return ids_of(before, request, self._first_id)
        return chat_of(before, request) if self._prompts == "chat" else text_of(before, request)
