"""Checks of the sampling and stop fields: each value within the range that the contract gives, or a refusal that names it."""

import math
from collections.abc import Collection, Sized

import numpy as np
from headway.v1 import inference_pb2 as api

from services.router.limits import Limits
from services.runtime.errors import invalid_field
from services.wire.execution import Sampling
from services.wire.message import Int32Column, float32_column, int32_column

MAX_LOGIT_BIASES = 1024
MAX_LISTED_TOKENS = 16384  # of allowed_token_ids, and of banned_token_ids
MAX_STOP_TOKENS = 64
MAX_STOP_STRING_BYTES = 256
MAX_PENALTY = 100.0


def check_sampling(request: api.GenerateRequest, limits: Limits, eos_ids: Int32Column) -> Sampling:
    """How the request's tokens are drawn and when they stop. Raises `Refusal`."""
    given, stop = request.sampling, request.stop
    bias_ids, bias_values = _logit_bias(given, limits)
    sampling = Sampling(
        temperature=_real(given, "temperature", 1.0, lowest=0.0, highest=MAX_PENALTY),
        top_p=_real(given, "top_p", 1.0, above=0.0, highest=1.0),
        top_k=_top_k(given, limits),
        min_p=_real(given, "min_p", 0.0, lowest=0.0, highest=1.0),
        repetition_penalty=_real(given, "repetition_penalty", 1.0, above=0.0, highest=MAX_PENALTY),
        presence_penalty=_real(given, "presence_penalty", 0.0, lowest=-MAX_PENALTY, highest=MAX_PENALTY),
        frequency_penalty=_real(given, "frequency_penalty", 0.0, lowest=-MAX_PENALTY, highest=MAX_PENALTY),
        bias_ids=bias_ids,
        bias_values=bias_values,
        allowed_ids=check_token_ids(
            "sampling.allowed_token_ids", given.allowed_token_ids, limits.vocab_size, MAX_LISTED_TOKENS
        ),
        banned_ids=check_token_ids(
            "sampling.banned_token_ids", given.banned_token_ids, limits.vocab_size, MAX_LISTED_TOKENS
        ),
        stop_ids=check_token_ids("stop.token_ids", stop.token_ids, limits.vocab_size, MAX_STOP_TOKENS),
        ignore_eos=stop.ignore_eos,
        min_tokens=_min_tokens(stop, limits),
        logprobs=_logprobs(request.output, "logprobs", limits),
        prompt_logprobs=_logprobs(request.output, "prompt_logprobs", limits),
    )
    _something_to_draw(sampling, limits, eos_ids)
    return sampling


def check_token_count(field: str, ids: Sized, max_count: int) -> None:
    """Refuses more token ids than `field` may hold."""
    if len(ids) > max_count:
        raise invalid_field(field, f"holds {len(ids)} token ids; at most {max_count} are allowed")


def check_token_ids(field: str, ids: Collection[int], vocab_size: int, max_count: int) -> Int32Column:
    """The token ids of `field` as a column, all of them in the vocabulary. Raises `Refusal`."""
    check_token_count(field, ids, max_count)
    column = np.fromiter(ids, np.int32, len(ids))
    outside = (column < 0) | (column >= vocab_size)
    if outside.any():
        at = int(outside.argmax())
        raise invalid_field(
            f"{field}[{at}]", f"token id {column[at]} is not in the vocabulary; ids are 0 to {vocab_size - 1}"
        )
    return int32_column(column)


def check_stop_strings(stop: api.StopParams, limits: Limits) -> tuple[str, ...]:
    """The stop strings, few and short enough to be looked for in every step. Raises `Refusal`."""
    if len(stop.strings) > limits.max_stop_strings:
        raise invalid_field(
            "stop.strings", f"holds {len(stop.strings)} strings; at most {limits.max_stop_strings} are allowed"
        )
    for at, string in enumerate(stop.strings):
        size = len(string.encode())
        if not 1 <= size <= MAX_STOP_STRING_BYTES:
            why = f"has {size} bytes; a stop string has 1 to {MAX_STOP_STRING_BYTES}"
            raise invalid_field(f"stop.strings[{at}]", why)
    return tuple(stop.strings)


def _real(
    given: api.SamplingParams,
    name: str,
    default: float,
    *,
    highest: float,
    lowest: float = -math.inf,
    above: float = -math.inf,
) -> float:
    if not given.HasField(name):
        return default
    value = float(getattr(given, name))
    # A comparison with NaN is false, so that NaN never passes.
    if not (lowest <= value <= highest and value > above):
        allowed = f"greater than {above:g}" if above > lowest else f"at least {lowest:g}"
        raise invalid_field(f"sampling.{name}", f"is {value:g}; it must be {allowed} and at most {highest:g}")
    return value


def _top_k(given: api.SamplingParams, limits: Limits) -> int:
    if given.top_k < -1:
        raise invalid_field("sampling.top_k", f"is {given.top_k}; it must be at least 1, or 0 or -1 to be off")
    return min(max(given.top_k, 0), limits.vocab_size)


def _logit_bias(given: api.SamplingParams, limits: Limits) -> tuple[Int32Column, np.ndarray]:
    bias = given.logit_bias
    if len(bias) > MAX_LOGIT_BIASES:
        raise invalid_field("sampling.logit_bias", f"holds {len(bias)} entries; at most {MAX_LOGIT_BIASES} are allowed")
    for token_id, value in bias.items():
        if not 0 <= token_id < limits.vocab_size:
            why = f"token id {token_id} is not in the vocabulary; ids are 0 to {limits.vocab_size - 1}"
            raise invalid_field(f"sampling.logit_bias[{token_id}]", why)
        if not -MAX_PENALTY <= value <= MAX_PENALTY:
            why = f"is {value:g}; it must be from {-MAX_PENALTY:g} to {MAX_PENALTY:g}"
            raise invalid_field(f"sampling.logit_bias[{token_id}]", why)
    ordered = sorted(bias.items())
    return int32_column([token_id for token_id, _ in ordered]), float32_column([value for _, value in ordered])


def _min_tokens(stop: api.StopParams, limits: Limits) -> int:
    if stop.min_tokens < 0:
        raise invalid_field("stop.min_tokens", f"is {stop.min_tokens}; it must be at least 0")
    if stop.HasField("max_tokens"):
        if stop.min_tokens > stop.max_tokens >= 0:
            why = f"is {stop.min_tokens}, more than max_tokens, which is {stop.max_tokens}"
            raise invalid_field("stop.min_tokens", why)
    elif stop.min_tokens > limits.default_max_tokens:
        why = f"is {stop.min_tokens}, more than the default max_tokens of {limits.default_max_tokens}: set max_tokens"
        raise invalid_field("stop.min_tokens", why)
    return stop.min_tokens


def _logprobs(output: api.OutputParams, name: str, limits: Limits) -> int:
    if not output.HasField(name):
        return -1
    count = int(getattr(output, name))
    if not 0 <= count <= limits.max_logprobs:
        raise invalid_field(f"output.{name}", f"is {count}; it must be from 0 to {limits.max_logprobs}")
    return count


def _something_to_draw(sampling: Sampling, limits: Limits, eos_ids: Int32Column) -> None:
    """Refuses a request whose lists leave no token that could be drawn."""
    if not len(sampling.allowed_ids) and not len(sampling.banned_ids):
        return
    drawable = np.full(limits.vocab_size, not len(sampling.allowed_ids))
    drawable[sampling.allowed_ids] = True
    drawable[sampling.banned_ids] = False
    if not drawable.any():
        field = "sampling.allowed_token_ids" if len(sampling.allowed_ids) else "sampling.banned_token_ids"
        raise invalid_field(field, "together with the banned token ids it leaves no token that could be drawn")
    if sampling.min_tokens:
        drawable[sampling.stop_ids] = False
        drawable[eos_ids] = False
        if not drawable.any():
            why = "forbids stop tokens at first, and the allowed and banned token ids leave no other token"
            raise invalid_field("stop.min_tokens", why)
