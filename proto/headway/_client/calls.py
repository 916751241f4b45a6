"""Calls: what can be asked of a server, and what its caller gets of the reply. No I/O: the clients do that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Unpack

from google.protobuf.message import Message

from headway._client.answer import Completion
from headway._client.attempts import Attempts, RetryPolicy
from headway._client.exchange import Exchange
from headway._client.request import Params, Prompt, Text, filling, made, prompt_fields, request_of
from headway.v1 import inference_pb2 as v1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unary(Generic[T]):
    """One question with one reply."""

    method: str
    request: Message
    value_of: Callable[[Any], T]  # what the caller gets of the reply
    attempts: Attempts

    def pause_s(self, call: Any) -> float:
        """How long to wait, now that `call` has failed, before it is asked again. Raises the error where it is not."""
        return self.attempts.pause_s(self.attempts.error_of(call))


class Calls:
    """All calls of one client."""

    def __init__(self, address: str, retry: RetryPolicy) -> None:
        self._address = address
        self._retry = retry

    def stream(self, prompt: Prompt, params: Params, timeout_s: float | None) -> Exchange:
        return Exchange(request_of(prompt, params), self._attempts(timeout_s))

    def complete(
        self, prompt: Prompt, *, timeout_s: float | None = None, **params: Unpack[Params]
    ) -> Unary[Completion]:
        """The whole answer, or answers."""
        return self._unary("Complete", request_of(prompt, params), Completion, timeout_s)

    def tokenize(
        self,
        prompt: Text,
        *,
        model: str = "",
        add_generation_prompt: bool | None = None,
        add_special_tokens: bool | None = None,
        timeout_s: float | None = None,
    ) -> Unary[list[int]]:
        """The exact tokens that `prompt` becomes."""
        fields = prompt_fields(prompt, add_generation_prompt, add_special_tokens)
        request = made(v1.TokenizeRequest, "model", model=model, **fields)
        return self._unary("Tokenize", request, lambda reply: list(reply.token_ids), timeout_s)

    def detokenize(
        self,
        token_ids: Sequence[int],
        *,
        model: str = "",
        skip_special_tokens: bool | None = None,
        timeout_s: float | None = None,
    ) -> Unary[str]:
        """The text of `token_ids`."""
        request = made(v1.DetokenizeRequest, "model", model=model, skip_special_tokens=skip_special_tokens)
        with filling("token_ids"):
            request.token_ids.extend(token_ids)
        return self._unary("Detokenize", request, lambda reply: str(reply.text), timeout_s)

    def model(self, name: str = "", *, timeout_s: float | None = None) -> Unary[v1.GetModelResponse]:
        """What is served, under which limits."""
        request = made(v1.GetModelRequest, "model", model=name)
        return self._unary("GetModel", request, _itself, timeout_s)

    def explain(self, request_id: str, *, timeout_s: float | None = None) -> Unary[v1.ExplainResponse]:
        """Why a live request waits, and for how long it is expected to."""
        request = made(v1.ExplainRequest, "request_id", request_id=request_id)
        return self._unary("Explain", request, _itself, timeout_s)

    def abort(self, request_id: str, *, timeout_s: float | None = None) -> Unary[None]:
        """Ends a live request."""
        request = made(v1.AbortRequest, "request_id", request_id=request_id)
        return self._unary("Abort", request, lambda _reply: None, timeout_s)

    def _attempts(self, timeout_s: float | None) -> Attempts:
        return Attempts(self._retry, timeout_s, self._address)

    def _unary(self, method: str, request: Message, value_of: Callable[[Any], T], timeout_s: float | None) -> Unary[T]:
        return Unary(method, request, value_of, self._attempts(timeout_s))


def _itself(reply: Any) -> Any:
    return reply
