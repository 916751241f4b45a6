"""Validation: a GenerateRequest from a stranger becomes a `CheckedRequest`, or a `Refusal` that names the field."""

import math
import re
from collections.abc import Sequence

import grpc
from headway.v1 import inference_pb2 as api

from services.router.checked_request import CheckedRequest
from services.router.limits import Limits
from services.router.sampling_checks import check_sampling, check_stop_strings, check_token_ids
from services.router.seeds import draw_seed
from services.runtime.errors import Refusal, deadline_exceeded, error_info, invalid_field, not_found
from services.wire.execution import ModelCard, Sampling
from services.wire.message import Int32Column

MAX_LABELS = 8
MAX_LABEL_KEY_BYTES = 64
MAX_LABEL_VALUE_BYTES = 256
MAX_MESSAGES = 2048
MAX_PARTS = 4096
LONGEST_TIME_LEFT_S = 365 * 24 * 3600.0  # more is no deadline: it is told in whole microseconds, and timers have bounds

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_QUOTED_LENGTH = 128  # of a client's own value, told back to it

PromptRequest = api.GenerateRequest | api.TokenizeRequest


def check_request(request: api.GenerateRequest, card: ModelCard, limits: Limits, request_id: str) -> CheckedRequest:
    """Checks every field but the prompt, which has `check_prompt_size`. Raises `Refusal`."""
    if request.HasField("grammar"):
        message = "grammar: this server has no grammar back end; leave the field unset"
        raise Refusal(grpc.StatusCode.UNIMPLEMENTED, message, error_info("GRAMMAR_UNSUPPORTED"))
    if request.adapter:
        raise not_found("adapter: this server has no adapters; leave the field empty", "ADAPTER_UNKNOWN")
    sampling = check_sampling(request, limits, card.eos_ids)
    max_tokens = _max_tokens(request.stop, sampling)
    answer_count = _answer_count(request, limits, max_tokens)
    resume_ids = _resume_ids(request, card, limits, answer_count, max_tokens)
    _labels(request)
    if request.latency_class and not _WORD.fullmatch(request.latency_class):
        raise invalid_field("latency_class", "must be 1 to 64 letters, digits, '.', '_' or '-', or empty")
    return CheckedRequest(
        request_id=request_id,
        sampling=sampling,
        seed=_seed(request),
        max_tokens=max_tokens,
        n=answer_count,
        stop_strings=check_stop_strings(request.stop, limits),
        include_stop_string=request.stop.include_stop_string,
        skip_special_tokens=request.output.skip_special_tokens
        if request.output.HasField("skip_special_tokens")
        else True,
        priority=request.priority,
        latency_class=request.latency_class,
        resume_ids=resume_ids,
    )


def check_model(name: str, served: Sequence[str]) -> None:
    """Refuses a model that is not served, and says which are. The empty name is the default model."""
    if name and name not in served:
        names = ", ".join(served)
        message = f"model: {name[:_QUOTED_LENGTH]!r} is not served here; served models: {names}"
        raise not_found(message, "MODEL_UNKNOWN", {"served_models": names})


def check_request_id(request_id: str, *, required: bool) -> None:
    """Refuses an id that could not be named in a log or in another call."""
    if (request_id or required) and not _REQUEST_ID.fullmatch(request_id):
        raise invalid_field("request_id", "must be 1 to 128 printable ASCII characters without spaces")


def check_time_left(deadline_s: float | None, call_time_left_s: float | None) -> float | None:
    """Seconds that the request has: the smaller of its own field and its call's; None: no end. Raises `Refusal`."""
    if deadline_s is not None and math.isnan(deadline_s):
        raise invalid_field("deadline_s", "is not a number; it is the time left in seconds")
    left = min((value for value in (deadline_s, call_time_left_s) if value is not None), default=None)
    if left is not None and left <= 0:
        raise deadline_exceeded("the deadline had passed when the request arrived; nothing was computed")
    return None if left is None or left > LONGEST_TIME_LEFT_S else left


def check_prompt_size(request: PromptRequest, limits: Limits) -> None:
    """Checks how large a prompt is before any of it is rendered or tokenized. Raises `Refusal`."""
    kind = request.WhichOneof("prompt")
    if kind is None:
        raise invalid_field("prompt", "is not set; give chat messages or parts")
    if kind == "chat" and len(request.chat.messages) > MAX_MESSAGES:
        why = f"holds {len(request.chat.messages)} messages; at most {MAX_MESSAGES} are allowed"
        raise invalid_field("chat.messages", why)
    groups = [message.content for message in request.chat.messages] if kind == "chat" else [request.parts.parts]
    num_parts = sum(map(len, groups))
    if num_parts > MAX_PARTS:
        raise invalid_field(kind, f"holds {num_parts} parts; at most {MAX_PARTS} are allowed")
    num_bytes = sum(len(part.text.encode()) for parts in groups for part in parts)
    if num_bytes > limits.max_prompt_bytes:
        raise invalid_field(kind, f"the text has {num_bytes} bytes; at most {limits.max_prompt_bytes} are allowed")
    num_ids = sum(len(part.token_ids.ids) for parts in groups for part in parts)
    if num_ids > limits.max_request_tokens:
        why = f"holds {num_ids} token ids; at most {limits.max_request_tokens} are allowed"
        raise invalid_field(kind, why)


def fit_length(prompt_tokens: int, max_tokens: int, limits: Limits) -> int:
    """The most tokens that the answer may have; refuses what could never fit. Raises `Refusal`.

    An unset `max_tokens` (-1) is the documented default, clipped to the room that the prompt leaves.
    """
    why = (
        f"this server takes {limits.max_request_tokens} tokens for prompt and answer together "
        f"(context {limits.context_length}, KV pool {limits.kv_pool_tokens})"
    )
    room = limits.max_request_tokens - prompt_tokens
    if room < 0 or (max_tokens < 0 and room == 0):
        raise invalid_field("prompt", f"has {prompt_tokens} tokens, which leaves no room for an answer; {why}")
    if max_tokens > room:
        message = f"is {max_tokens}, but the prompt of {prompt_tokens} tokens leaves room for {room}; {why}"
        raise invalid_field("stop.max_tokens", message)
    return max_tokens if max_tokens >= 0 else min(limits.default_max_tokens, room)


def _max_tokens(stop: api.StopParams, sampling: Sampling) -> int:
    if not stop.HasField("max_tokens"):
        return -1
    if stop.max_tokens < 0:
        raise invalid_field(
            "stop.max_tokens", f"is {stop.max_tokens}; it must be at least 1, or 0 with prompt logprobs"
        )
    if stop.max_tokens == 0 and sampling.prompt_logprobs < 0:
        raise invalid_field("stop.max_tokens", "is 0, which is allowed only with output.prompt_logprobs")
    return stop.max_tokens


def _answer_count(request: api.GenerateRequest, limits: Limits, max_tokens: int) -> int:
    count = request.n if request.HasField("n") else 1
    if not 1 <= count <= limits.max_n:
        raise invalid_field("n", f"is {count}; it must be from 1 to {limits.max_n}")
    if max_tokens == 0 and count > 1:
        raise invalid_field("n", f"is {count}; with max_tokens 0 there is one answer at most")
    return count


def _resume_ids(
    request: api.GenerateRequest, card: ModelCard, limits: Limits, answer_count: int, max_tokens: int
) -> Int32Column | None:
    if not request.HasField("resume"):
        return None
    if answer_count != 1:
        raise invalid_field("resume", f"is allowed only with one answer; n is {answer_count}")
    resume = request.resume
    if not resume.fingerprint:
        raise invalid_field("resume.fingerprint", "is empty; it is the fingerprint that the lost stream began with")
    if resume.fingerprint != card.fingerprint:
        message = "resume.fingerprint: the model has changed since the lost stream began; start the request anew"
        raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, message, error_info("MODEL_CHANGED"))
    ids = check_token_ids("resume.token_ids", resume.token_ids, limits.vocab_size, limits.max_request_tokens)
    if 0 <= max_tokens < len(ids):
        raise invalid_field("resume.token_ids", f"holds {len(ids)} token ids, more than max_tokens, {max_tokens}")
    return ids


def _seed(request: api.GenerateRequest) -> int:
    asked = request.sampling.seed if request.sampling.HasField("seed") else None
    if request.HasField("resume"):
        if asked is not None and asked != request.resume.seed:
            raise invalid_field(
                "resume.seed", "differs from sampling.seed; it is the seed that the lost stream drew from"
            )
        return request.resume.seed
    return draw_seed() if asked is None else asked


def _labels(request: api.GenerateRequest) -> None:
    if len(request.labels) > MAX_LABELS:
        raise invalid_field("labels", f"holds {len(request.labels)} labels; at most {MAX_LABELS} are allowed")
    for key, value in request.labels.items():
        if not 1 <= len(key.encode()) <= MAX_LABEL_KEY_BYTES:
            raise invalid_field(
                "labels", f"a key has {len(key.encode())} bytes; 1 to {MAX_LABEL_KEY_BYTES} are allowed"
            )
        if len(value.encode()) > MAX_LABEL_VALUE_BYTES:
            why = f"the value has {len(value.encode())} bytes; at most {MAX_LABEL_VALUE_BYTES} are allowed"
            raise invalid_field(f"labels[{key}]", why)
