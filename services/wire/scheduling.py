"""What router and scheduler say to each other. Field meanings: proto/headway/internal/v1/scheduling.proto."""

from dataclasses import field
from enum import IntEnum
from math import isfinite

from services.wire.execution import PROTOCOL, LogprobRows, ModelCard, RequestKind, Sampling
from services.wire.message import Int32Column, Message, message, no_ints, require, total

HASH_BYTES = 16


@message
class RouterHello(Message):
    protocol: int = PROTOCOL
    router: str = ""


@message
class Submit(Message):
    handle: int
    tenant: str = ""
    request_id: str
    answer_index: int = 0
    token_ids: Int32Column
    prompt_length: int
    accepted_count: int = 0
    chain_root: bytes
    block_hashes: bytes = b""
    seed: int = 0
    sampling: Sampling
    grammar: str = ""
    max_tokens: int = -1
    tenant_weight: float = 1.0
    tenant_max_requests: int = 0
    tenant_max_blocks: int = 0
    priority: int = 0
    latency_class: str = ""
    time_left_us: int = -1
    attempt: int = 0
    resubmitted: bool = False
    adapter: str = ""
    kind: RequestKind = RequestKind.GENERATE
    traceparent: str = ""

    def __post_init__(self) -> None:
        known = len(self.token_ids)
        require(0 < self.prompt_length <= known, "the prompt is empty or longer than the known tokens")
        require(self.accepted_count == known - self.prompt_length, "accepted_count does not match the token ids")
        require(len(self.chain_root) == HASH_BYTES, "a chain root has 16 bytes")
        require(len(self.block_hashes) % HASH_BYTES == 0, "a block hash has 16 bytes")
        require(self.max_tokens >= -1, "max_tokens is negative")
        require(isfinite(self.tenant_weight) and self.tenant_weight >= 0, "a weight is finite and not negative")


@message
class Stop(Message):
    handle: int
    accepted_count: int


@message
class Cancel(Message):
    handle: int


@message
class SchedulerHello(Message):
    protocol: int = PROTOCOL
    fingerprint: str = ""
    numerics_digest: str = ""
    executor_ready: bool = False
    block_size: int = 0
    pool_tokens: int = 0
    max_request_tokens: int = 0
    default_max_tokens: int = 0
    max_waiting_requests: int = 0
    max_waiting_tokens: int = 0
    features: tuple[str, ...] = ()


@message
class StepTokens(Message):
    step: int
    handles: Int32Column = field(default_factory=no_ints)
    counts: Int32Column = field(default_factory=no_ints)
    tokens: Int32Column = field(default_factory=no_ints)
    logprobs: LogprobRows | None = None
    prompt_logprobs: LogprobRows | None = None

    def __post_init__(self) -> None:
        require(len(self.handles) == len(self.counts), "token columns differ in length")
        require(total(self.counts) == len(self.tokens), "counts do not add up to the tokens")


class FinishCause(IntEnum):
    UNSPECIFIED = 0
    STOP_TOKEN = 1
    LENGTH = 2
    STOPPED = 3
    CANCELLED = 4


@message
class Bill(Message):
    computed_prompt_tokens: int = 0
    cached_tokens: int = 0
    recomputed_tokens: int = 0
    completion_tokens: int = 0
    steps: int = 0
    kv_block_us: int = 0
    executor_us: int = 0


@message
class Finished(Message):
    handle: int
    cause: FinishCause
    bill: Bill
    queued_us: int = 0
    prefill_us: int = 0


class RejectReason(IntEnum):
    UNSPECIFIED = 0
    QUEUE_FULL = 1
    QUOTA = 2
    NEVER_FITS = 3
    INVALID = 4
    DUPLICATE_ID = 5
    DEADLINE = 6
    EXECUTOR_UNAVAILABLE = 7
    POISONOUS = 8
    FAILED = 9
    DRAINING = 10
    MODEL_CHANGED = 11
    GRAMMAR = 12


@message
class Rejected(Message):
    handle: int
    reason: RejectReason
    field: str = ""
    message: str = ""
    retry_after_us: int = -1
    attempt: int = 0


@message
class Load(Message):
    running: int = 0
    waiting: int = 0
    waiting_tokens: int = 0
    free_blocks: int = 0
    cached_blocks: int = 0
    total_blocks: int = 0
    making_progress: bool = True
    last_step_age_us: int = 0
    predicted_step_us: int = 0
    draining: bool = False


@message
class ToScheduler(Message):
    body: RouterHello | Submit | Stop | Cancel


@message
class ToRouter(Message):
    body: SchedulerHello | StepTokens | Finished | Rejected | Load


@message
class GetModelCardRequest(Message):
    pass


@message
class GetModelCardResponse(Message):
    ready: bool
    card: ModelCard | None = None


@message
class ExplainByIdRequest(Message):
    tenant: str
    request_id: str


class SequenceState(IntEnum):
    UNSPECIFIED = 0
    WAITING = 1
    PREFILLING = 2
    DECODING = 3
    PREEMPTED = 4


@message
class SequenceView(Message):
    answer_index: int
    state: SequenceState
    queue_position: int = -1
    blocks_held: int = 0
    blocks_needed: int = 0
    blocks_free: int = 0
    waiting_for: str = "nothing"
    computed_tokens: int = 0
    completion_tokens: int = 0
    estimated_start_us: int = -1


@message
class ExplainByIdResponse(Message):
    sequences: tuple[SequenceView, ...] = ()


@message
class CancelByIdRequest(Message):
    tenant: str
    request_id: str


@message
class CancelByIdResponse(Message):
    cancelled: int


@message
class WatchRequest(Message):
    max_records_per_second: int = 0


@message
class ClassCounts(Message):
    name: str
    ended: int = 0
    ttft_met: int = 0
    tbt_met: int = 0
    both_met: int = 0


@message
class StepRecord(Message):
    """What one plan decided, in plain numbers."""

    step: int
    at_us: int
    token_budget: int
    decode_tokens: int = 0
    prefill_tokens: int = 0
    admitted: int = 0
    finished: int = 0
    preempted: int = 0
    running: int = 0
    waiting: int = 0
    waiting_tokens: int = 0
    free_blocks: int = 0
    cached_blocks: int = 0
    used_blocks: int = 0
    prefix_hit_tokens: int = 0
    prefix_query_tokens: int = 0
    rejected: int = 0
    step_us: int = 0
    forward_us: int = 0
    sample_us: int = 0
    predicted_us: int = 0
    useful_slots: int = 0
    held_slots: int = 0
    prediction_error_us: int = 0
    tbt_target_us: int = 0
    classes: tuple[ClassCounts, ...] = ()
