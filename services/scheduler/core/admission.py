"""Admission: whether a request can ever be served, and up to which length."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from services.scheduler.core.settings import CoreSettings
from services.wire.execution import Capacity, ModelCard, RequestKind, Sampling
from services.wire.message import Int32Column
from services.wire.scheduling import RejectReason, Submit


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request ends with an error; becomes a Rejected."""

    reason: RejectReason
    message: str
    field: str = ""
    retry_after_us: int = -1


def pool_tokens(capacity: Capacity) -> int:
    group = capacity.groups[0]
    return group.num_blocks * group.block_size


def max_request_tokens(capacity: Capacity) -> int:
    """The longest sequence that can be: the token that reaches its limit is never computed, so it needs no block."""
    return min(capacity.card.context_length, pool_tokens(capacity) + 1)


def static_refusal(submit: Submit, settings: CoreSettings) -> Refusal | None:
    """What is wrong with a request whatever the model."""
    if submit.grammar:
        return Refusal(RejectReason.GRAMMAR, "this server does not serve grammars", "grammar")
    for is_wrong, message, name in (
        (submit.kind is not RequestKind.GENERATE, "this server does not compute embeddings", ""),
        (bool(submit.adapter), "this server has no adapters", "adapter"),
        (
            submit.max_tokens > settings.max_tokens_cap,
            f"it must be at most {settings.max_tokens_cap}",
            "stop.max_tokens",
        ),
        (
            submit.max_tokens == 0 and submit.sampling.prompt_logprobs < 0,
            "0 is only of use together with prompt_logprobs",
            "stop.max_tokens",
        ),
        (
            submit.accepted_count > submit.max_tokens >= 0,
            "more tokens were received than it allows",
            "stop.max_tokens",
        ),
    ):
        if is_wrong:
            return _invalid(message, name)
    return _sampling_refusal(submit.sampling)


def model_refusal(submit: Submit, settings: CoreSettings, capacity: Capacity) -> Refusal | None:
    """What this model and this pool can never do; read again when another executor comes."""
    card = capacity.card
    for ids, name in _token_ids(submit):
        if ids.size and int(ids.view(np.uint32).max()) >= card.vocab_size:
            return _invalid(f"a token id is outside the model's vocabulary of {card.vocab_size}", name)
    for wanted, name in (
        (submit.sampling.logprobs, "output.logprobs"),
        (submit.sampling.prompt_logprobs, "output.prompt_logprobs"),
    ):
        if wanted > card.max_logprobs:
            return _invalid(f"{name} must be at most {card.max_logprobs}", name)
    return _size_refusal(submit, settings, capacity)


def token_limit(submit: Submit, settings: CoreSettings, capacity: Capacity) -> int:
    """The length at which the sequence ends. An unset max_tokens is the default, clipped to what can be served."""
    if submit.max_tokens >= 0:
        return submit.prompt_length + submit.max_tokens
    default = submit.prompt_length + min(settings.default_max_tokens, settings.max_tokens_cap)
    return min(default, max_request_tokens(capacity))


def quota_refusal(submit: Submit, limit: int, capacity: Capacity) -> Refusal | None:
    """A request that is larger than all its tenant may ever hold."""
    block_size = capacity.groups[0].block_size
    needed = -(-max(limit - 1, submit.prompt_length) // block_size)
    if not submit.tenant_max_blocks or needed <= submit.tenant_max_blocks:
        return None
    may = submit.tenant_max_blocks * block_size
    return Refusal(
        RejectReason.QUOTA, f"your quota is {may} tokens of cache: shorten the prompt or max_tokens", "stop.max_tokens"
    )


def has_stopped(submit: Submit, card: ModelCard) -> bool:
    """Whether a resumed answer is complete: its last token, which its client has, is a stop token."""
    if not submit.accepted_count:
        return False
    last, sampling = int(submit.token_ids[-1]), submit.sampling
    return last in sampling.stop_ids or (not sampling.ignore_eos and last in card.eos_ids)


def _size_refusal(submit: Submit, settings: CoreSettings, capacity: Capacity) -> Refusal | None:
    most, limit = max_request_tokens(capacity), token_limit(submit, settings, capacity)
    if submit.max_tokens < 0:
        if submit.prompt_length < limit:
            return None
        asked, blame = f"the prompt has {submit.prompt_length} tokens", "prompt"
    else:
        if limit <= most and submit.prompt_length <= pool_tokens(capacity):
            return None
        asked = f"the prompt has {submit.prompt_length} tokens and max_tokens is {submit.max_tokens}"
        blame = "stop.max_tokens"
    return Refusal(RejectReason.NEVER_FITS, f"{asked}; this server can hold {most}, prompt and answer together", blame)


def _sampling_refusal(sampling: Sampling) -> Refusal | None:
    in_range = {
        "sampling.temperature": isfinite(sampling.temperature) and sampling.temperature >= 0,
        "sampling.top_p": 0 < sampling.top_p <= 1,
        "sampling.top_k": sampling.top_k >= 0,
        "sampling.min_p": 0 <= sampling.min_p <= 1,
        "sampling.repetition_penalty": isfinite(sampling.repetition_penalty) and sampling.repetition_penalty > 0,
        "sampling.presence_penalty": isfinite(sampling.presence_penalty),
        "sampling.frequency_penalty": isfinite(sampling.frequency_penalty),
        "sampling.logit_bias": bool(np.isfinite(sampling.bias_values).all()),
        "output.logprobs": sampling.logprobs >= -1,
        "output.prompt_logprobs": sampling.prompt_logprobs >= -1,
    }
    return next((_invalid(f"{name} is out of range", name) for name, ok in in_range.items() if not ok), None)


def _token_ids(submit: Submit) -> tuple[tuple[Int32Column, str], ...]:
    sampling = submit.sampling
    return (
        (submit.token_ids, "prompt"),
        (sampling.bias_ids, "sampling.logit_bias"),
        (sampling.allowed_ids, "sampling.allowed_token_ids"),
        (sampling.banned_ids, "sampling.banned_token_ids"),
        (sampling.stop_ids, "stop.token_ids"),
    )


def _invalid(message: str, name: str) -> Refusal:
    return Refusal(RejectReason.INVALID, message, name)
