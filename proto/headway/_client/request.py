"""Requests: messages made of what a caller gives. What no message can hold is refused as the server would refuse it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from headway._client.errors import InvalidRequest, Violation
from headway.v1 import inference_pb2 as v1

_Message = TypeVar("_Message", bound=Message)

Text = str | Sequence[Mapping[str, str]]  # a text, or the messages of a chat
Prompt = Text | Sequence[int] | v1.GenerateRequest


class Params(TypedDict, total=False):
    """Every parameter of a request, as `headway/v1/inference.proto` describes it."""

    model: str
    request_id: str
    n: int
    priority: int
    latency_class: str
    labels: Mapping[str, str]
    # how a token is drawn
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    allowed_token_ids: Sequence[int]
    banned_token_ids: Sequence[int]
    # when the answer ends
    max_tokens: int
    min_tokens: int
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    include_stop_string: bool
    # what comes beside the text
    logprobs: int
    prompt_logprobs: int
    skip_special_tokens: bool
    # how the prompt is read
    add_generation_prompt: bool
    add_special_tokens: bool


_GROUPS: dict[str, Any] = {"sampling": v1.SamplingParams, "stop": v1.StopParams, "output": v1.OutputParams}
_RANGES = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_PLACES = {
    **{field: (group, field) for group, kind in _GROUPS.items() for field in kind.DESCRIPTOR.fields_by_name},
    "stop": ("stop", "strings"),
    "stop_token_ids": ("stop", "token_ids"),
}


def request_of(prompt: Prompt, params: Params) -> v1.GenerateRequest:
    """The request that `prompt` and `params` ask for. Raises `TypeError`, or `InvalidRequest` naming the field."""
    if isinstance(prompt, v1.GenerateRequest):
        if params:
            raise TypeError("a GenerateRequest carries its own parameters")
        request = v1.GenerateRequest()
        request.CopyFrom(prompt)
        return request
    given: dict[str, Any] = dict(params)
    if unknown := given.keys() - Params.__annotations__.keys():
        raise TypeError(f"no parameter is called {', '.join(sorted(unknown))}")
    fields = prompt_fields(prompt, given.pop("add_generation_prompt", None), given.pop("add_special_tokens", None))
    request = v1.GenerateRequest(**fields)
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    for name, value in given.items():
        group, field = _PLACES.get(name, ("", name))
        target: Any = getattr(request, group) if group else request
        with filling(f"{group}.{field}" if group else field, target.DESCRIPTOR.fields_by_name[field].type):
            target.MergeFrom(type(target)(**{field: value}))
    return request


@contextlib.contextmanager
def filling(path: str, kind: int = FieldDescriptor.TYPE_MESSAGE) -> Iterator[None]:
    """Within, the field at `path` is given its value. Raises `InvalidRequest` for one that it cannot hold."""
    try:
        yield
    except UnicodeEncodeError:
        why = "is no text: it holds half of a surrogate pair, as bytes do that were not UTF-8"
    except (ValueError, OverflowError):  # protobuf's, for a number that does not fit; of a wrong type it is a TypeError
        least, most = _RANGES.get(kind, (None, None))
        why = "holds a number that is out of range" if least is None else f"must be from {least} to {most}"
    else:
        return
    code = grpc.StatusCode.INVALID_ARGUMENT
    raise InvalidRequest(f"{path}: {why}", code=code, violations=[Violation(path, why)])


def made(kind: Callable[..., _Message], path: str, **fields: Any) -> _Message:
    """A message whose field at `path` is the caller's."""
    with filling(path):
        return kind(**fields)


def prompt_fields(
    prompt: Text | Sequence[int],
    add_generation_prompt: bool | None,
    add_special_tokens: bool | None,
) -> dict[str, Any]:
    """`prompt` as the oneof of GenerateRequest and of TokenizeRequest."""
    if isinstance(prompt, str):
        part = made(v1.Part, "parts", text=prompt)
        return {"parts": v1.PartsPrompt(parts=[part], add_special_tokens=add_special_tokens)}
    if len(prompt) and isinstance(prompt[0], Mapping):
        with filling("chat.messages"):
            messages = [
                v1.ChatMessage(role=each["role"], content=[v1.Part(text=each["content"])])  # type: ignore[index]
                for each in prompt
            ]
        return {"chat": v1.ChatPrompt(messages=messages, add_generation_prompt=add_generation_prompt)}
    ids = made(v1.TokenIds, "parts", ids=prompt)
    return {"parts": v1.PartsPrompt(parts=[v1.Part(token_ids=ids)], add_special_tokens=add_special_tokens)}
