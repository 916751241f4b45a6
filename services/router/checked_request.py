"""A checked request: what a client asked for, every field within its range."""

from dataclasses import dataclass

from services.wire.execution import Sampling
from services.wire.message import Int32Column


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequest:
    """One GenerateRequest without its prompt; `resume_ids` is None unless the request resumes an answer."""

    request_id: str
    sampling: Sampling
    seed: int
    max_tokens: int  # -1: unset
    n: int
    stop_strings: tuple[str, ...]
    include_stop_string: bool
    skip_special_tokens: bool
    priority: int
    latency_class: str
    resume_ids: Int32Column | None
