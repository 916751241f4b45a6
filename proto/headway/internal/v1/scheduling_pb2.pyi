from headway.internal.v1 import execution_pb2 as _execution_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FinishCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_CAUSE_UNSPECIFIED: _ClassVar[FinishCause]
    FINISH_CAUSE_STOP_TOKEN: _ClassVar[FinishCause]
    FINISH_CAUSE_LENGTH: _ClassVar[FinishCause]
    FINISH_CAUSE_STOPPED: _ClassVar[FinishCause]
    FINISH_CAUSE_CANCELLED: _ClassVar[FinishCause]

class RejectReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REJECT_REASON_UNSPECIFIED: _ClassVar[RejectReason]
    REJECT_REASON_QUEUE_FULL: _ClassVar[RejectReason]
    REJECT_REASON_QUOTA: _ClassVar[RejectReason]
    REJECT_REASON_NEVER_FITS: _ClassVar[RejectReason]
    REJECT_REASON_INVALID: _ClassVar[RejectReason]
    REJECT_REASON_DUPLICATE_ID: _ClassVar[RejectReason]
    REJECT_REASON_DEADLINE: _ClassVar[RejectReason]
    REJECT_REASON_EXECUTOR_UNAVAILABLE: _ClassVar[RejectReason]
    REJECT_REASON_POISONOUS: _ClassVar[RejectReason]
    REJECT_REASON_FAILED: _ClassVar[RejectReason]
    REJECT_REASON_DRAINING: _ClassVar[RejectReason]
    REJECT_REASON_MODEL_CHANGED: _ClassVar[RejectReason]
    REJECT_REASON_GRAMMAR: _ClassVar[RejectReason]

class SequenceState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEQUENCE_STATE_UNSPECIFIED: _ClassVar[SequenceState]
    SEQUENCE_STATE_WAITING: _ClassVar[SequenceState]
    SEQUENCE_STATE_PREFILLING: _ClassVar[SequenceState]
    SEQUENCE_STATE_DECODING: _ClassVar[SequenceState]
    SEQUENCE_STATE_PREEMPTED: _ClassVar[SequenceState]
FINISH_CAUSE_UNSPECIFIED: FinishCause
FINISH_CAUSE_STOP_TOKEN: FinishCause
FINISH_CAUSE_LENGTH: FinishCause
FINISH_CAUSE_STOPPED: FinishCause
FINISH_CAUSE_CANCELLED: FinishCause
REJECT_REASON_UNSPECIFIED: RejectReason
REJECT_REASON_QUEUE_FULL: RejectReason
REJECT_REASON_QUOTA: RejectReason
REJECT_REASON_NEVER_FITS: RejectReason
REJECT_REASON_INVALID: RejectReason
REJECT_REASON_DUPLICATE_ID: RejectReason
REJECT_REASON_DEADLINE: RejectReason
REJECT_REASON_EXECUTOR_UNAVAILABLE: RejectReason
REJECT_REASON_POISONOUS: RejectReason
REJECT_REASON_FAILED: RejectReason
REJECT_REASON_DRAINING: RejectReason
REJECT_REASON_MODEL_CHANGED: RejectReason
REJECT_REASON_GRAMMAR: RejectReason
SEQUENCE_STATE_UNSPECIFIED: SequenceState
SEQUENCE_STATE_WAITING: SequenceState
SEQUENCE_STATE_PREFILLING: SequenceState
SEQUENCE_STATE_DECODING: SequenceState
SEQUENCE_STATE_PREEMPTED: SequenceState

class ToScheduler(_message.Message):
    __slots__ = ("hello", "submit", "stop", "cancel")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    hello: RouterHello
    submit: Submit
    stop: Stop
    cancel: Cancel
    def __init__(self, hello: _Optional[_Union[RouterHello, _Mapping]] = ..., submit: _Optional[_Union[Submit, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ...) -> None: ...

class RouterHello(_message.Message):
    __slots__ = ("protocol", "router")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    router: str
    def __init__(self, protocol: _Optional[int] = ..., router: _Optional[str] = ...) -> None: ...

class Submit(_message.Message):
    __slots__ = ("handle", "tenant", "request_id", "answer_index", "token_ids", "prompt_length", "accepted_count", "chain_root", "block_hashes", "seed", "sampling", "grammar", "max_tokens", "tenant_weight", "tenant_max_requests", "tenant_max_blocks", "priority", "latency_class", "time_left_us", "attempt", "resubmitted", "adapter", "kind", "traceparent")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_INDEX_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHAIN_ROOT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_HASHES_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    GRAMMAR_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TENANT_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TENANT_MAX_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    TENANT_MAX_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LATENCY_CLASS_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_US_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RESUBMITTED_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    handle: int
    tenant: str
    request_id: str
    answer_index: int
    token_ids: bytes
    prompt_length: int
    accepted_count: int
    chain_root: bytes
    block_hashes: bytes
    seed: int
    sampling: _execution_pb2.Sampling
    grammar: str
    max_tokens: int
    tenant_weight: float
    tenant_max_requests: int
    tenant_max_blocks: int
    priority: int
    latency_class: str
    time_left_us: int
    attempt: int
    resubmitted: bool
    adapter: str
    kind: _execution_pb2.RequestKind
    traceparent: str
    def __init__(self, handle: _Optional[int] = ..., tenant: _Optional[str] = ..., request_id: _Optional[str] = ..., answer_index: _Optional[int] = ..., token_ids: _Optional[bytes] = ..., prompt_length: _Optional[int] = ..., accepted_count: _Optional[int] = ..., chain_root: _Optional[bytes] = ..., block_hashes: _Optional[bytes] = ..., seed: _Optional[int] = ..., sampling: _Optional[_Union[_execution_pb2.Sampling, _Mapping]] = ..., grammar: _Optional[str] = ..., max_tokens: _Optional[int] = ..., tenant_weight: _Optional[float] = ..., tenant_max_requests: _Optional[int] = ..., tenant_max_blocks: _Optional[int] = ..., priority: _Optional[int] = ..., latency_class: _Optional[str] = ..., time_left_us: _Optional[int] = ..., attempt: _Optional[int] = ..., resubmitted: _Optional[bool] = ..., adapter: _Optional[str] = ..., kind: _Optional[_Union[_execution_pb2.RequestKind, str]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("handle", "accepted_count")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    handle: int
    accepted_count: int
    def __init__(self, handle: _Optional[int] = ..., accepted_count: _Optional[int] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("handle",)
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    handle: int
    def __init__(self, handle: _Optional[int] = ...) -> None: ...

class ToRouter(_message.Message):
    __slots__ = ("hello", "tokens", "finished", "rejected", "load")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    hello: SchedulerHello
    tokens: StepTokens
    finished: Finished
    rejected: Rejected
    load: Load
    def __init__(self, hello: _Optional[_Union[SchedulerHello, _Mapping]] = ..., tokens: _Optional[_Union[StepTokens, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., rejected: _Optional[_Union[Rejected, _Mapping]] = ..., load: _Optional[_Union[Load, _Mapping]] = ...) -> None: ...

class SchedulerHello(_message.Message):
    __slots__ = ("protocol", "fingerprint", "numerics_digest", "executor_ready", "block_size", "pool_tokens", "max_request_tokens", "default_max_tokens", "max_waiting_requests", "max_waiting_tokens", "features")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    NUMERICS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_READY_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    POOL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUEST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_WAITING_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_WAITING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    fingerprint: str
    numerics_digest: str
    executor_ready: bool
    block_size: int
    pool_tokens: int
    max_request_tokens: int
    default_max_tokens: int
    max_waiting_requests: int
    max_waiting_tokens: int
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, protocol: _Optional[int] = ..., fingerprint: _Optional[str] = ..., numerics_digest: _Optional[str] = ..., executor_ready: _Optional[bool] = ..., block_size: _Optional[int] = ..., pool_tokens: _Optional[int] = ..., max_request_tokens: _Optional[int] = ..., default_max_tokens: _Optional[int] = ..., max_waiting_requests: _Optional[int] = ..., max_waiting_tokens: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class StepTokens(_message.Message):
    __slots__ = ("step", "handles", "counts", "tokens", "logprobs", "prompt_logprobs")
    STEP_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    step: int
    handles: bytes
    counts: bytes
    tokens: bytes
    logprobs: _execution_pb2.LogprobRows
    prompt_logprobs: _execution_pb2.LogprobRows
    def __init__(self, step: _Optional[int] = ..., handles: _Optional[bytes] = ..., counts: _Optional[bytes] = ..., tokens: _Optional[bytes] = ..., logprobs: _Optional[_Union[_execution_pb2.LogprobRows, _Mapping]] = ..., prompt_logprobs: _Optional[_Union[_execution_pb2.LogprobRows, _Mapping]] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("handle", "cause", "bill", "queued_us", "prefill_us")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    BILL_FIELD_NUMBER: _ClassVar[int]
    QUEUED_US_FIELD_NUMBER: _ClassVar[int]
    PREFILL_US_FIELD_NUMBER: _ClassVar[int]
    handle: int
    cause: FinishCause
    bill: Bill
    queued_us: int
    prefill_us: int
    def __init__(self, handle: _Optional[int] = ..., cause: _Optional[_Union[FinishCause, str]] = ..., bill: _Optional[_Union[Bill, _Mapping]] = ..., queued_us: _Optional[int] = ..., prefill_us: _Optional[int] = ...) -> None: ...

class Bill(_message.Message):
    __slots__ = ("computed_prompt_tokens", "cached_tokens", "recomputed_tokens", "completion_tokens", "steps", "kv_block_us", "executor_us")
    COMPUTED_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    KV_BLOCK_US_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_US_FIELD_NUMBER: _ClassVar[int]
    computed_prompt_tokens: int
    cached_tokens: int
    recomputed_tokens: int
    completion_tokens: int
    steps: int
    kv_block_us: int
    executor_us: int
    def __init__(self, computed_prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., recomputed_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., steps: _Optional[int] = ..., kv_block_us: _Optional[int] = ..., executor_us: _Optional[int] = ...) -> None: ...

class Rejected(_message.Message):
    __slots__ = ("handle", "reason", "field", "message", "retry_after_us", "attempt")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_US_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    handle: int
    reason: RejectReason
    field: str
    message: str
    retry_after_us: int
    attempt: int
    def __init__(self, handle: _Optional[int] = ..., reason: _Optional[_Union[RejectReason, str]] = ..., field: _Optional[str] = ..., message: _Optional[str] = ..., retry_after_us: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("running", "waiting", "waiting_tokens", "free_blocks", "cached_blocks", "total_blocks", "making_progress", "last_step_age_us", "predicted_step_us", "draining")
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WAITING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CACHED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MAKING_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_AGE_US_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_STEP_US_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    running: int
    waiting: int
    waiting_tokens: int
    free_blocks: int
    cached_blocks: int
    total_blocks: int
    making_progress: bool
    last_step_age_us: int
    predicted_step_us: int
    draining: bool
    def __init__(self, running: _Optional[int] = ..., waiting: _Optional[int] = ..., waiting_tokens: _Optional[int] = ..., free_blocks: _Optional[int] = ..., cached_blocks: _Optional[int] = ..., total_blocks: _Optional[int] = ..., making_progress: _Optional[bool] = ..., last_step_age_us: _Optional[int] = ..., predicted_step_us: _Optional[int] = ..., draining: _Optional[bool] = ...) -> None: ...

class GetModelCardRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetModelCardResponse(_message.Message):
    __slots__ = ("ready", "card")
    READY_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    card: _execution_pb2.ModelCard
    def __init__(self, ready: _Optional[bool] = ..., card: _Optional[_Union[_execution_pb2.ModelCard, _Mapping]] = ...) -> None: ...

class ExplainByIdRequest(_message.Message):
    __slots__ = ("tenant", "request_id")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    request_id: str
    def __init__(self, tenant: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SequenceView(_message.Message):
    __slots__ = ("answer_index", "state", "queue_position", "blocks_held", "blocks_needed", "blocks_free", "waiting_for", "computed_tokens", "completion_tokens", "estimated_start_us")
    ANSWER_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_POSITION_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_HELD_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_NEEDED_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FREE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_START_US_FIELD_NUMBER: _ClassVar[int]
    answer_index: int
    state: SequenceState
    queue_position: int
    blocks_held: int
    blocks_needed: int
    blocks_free: int
    waiting_for: str
    computed_tokens: int
    completion_tokens: int
    estimated_start_us: int
    def __init__(self, answer_index: _Optional[int] = ..., state: _Optional[_Union[SequenceState, str]] = ..., queue_position: _Optional[int] = ..., blocks_held: _Optional[int] = ..., blocks_needed: _Optional[int] = ..., blocks_free: _Optional[int] = ..., waiting_for: _Optional[str] = ..., computed_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., estimated_start_us: _Optional[int] = ...) -> None: ...

class ExplainByIdResponse(_message.Message):
    __slots__ = ("sequences",)
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    sequences: _containers.RepeatedCompositeFieldContainer[SequenceView]
    def __init__(self, sequences: _Optional[_Iterable[_Union[SequenceView, _Mapping]]] = ...) -> None: ...

class CancelByIdRequest(_message.Message):
    __slots__ = ("tenant", "request_id")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    request_id: str
    def __init__(self, tenant: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelByIdResponse(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: int
    def __init__(self, cancelled: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("max_records_per_second",)
    MAX_RECORDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    max_records_per_second: int
    def __init__(self, max_records_per_second: _Optional[int] = ...) -> None: ...

class ClassCounts(_message.Message):
    __slots__ = ("name", "ended", "ttft_met", "tbt_met", "both_met")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    TTFT_MET_FIELD_NUMBER: _ClassVar[int]
    TBT_MET_FIELD_NUMBER: _ClassVar[int]
    BOTH_MET_FIELD_NUMBER: _ClassVar[int]
    name: str
    ended: int
    ttft_met: int
    tbt_met: int
    both_met: int
    def __init__(self, name: _Optional[str] = ..., ended: _Optional[int] = ..., ttft_met: _Optional[int] = ..., tbt_met: _Optional[int] = ..., both_met: _Optional[int] = ...) -> None: ...

class StepRecord(_message.Message):
    __slots__ = ("step", "at_us", "token_budget", "decode_tokens", "prefill_tokens", "admitted", "finished", "preempted", "running", "waiting", "waiting_tokens", "free_blocks", "cached_blocks", "used_blocks", "prefix_hit_tokens", "prefix_query_tokens", "rejected", "step_us", "forward_us", "sample_us", "predicted_us", "useful_slots", "held_slots", "prediction_error_us", "tbt_target_us", "classes")
    STEP_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    TOKEN_BUDGET_FIELD_NUMBER: _ClassVar[int]
    DECODE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREFILL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WAITING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CACHED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    USED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_HIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_QUERY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    STEP_US_FIELD_NUMBER: _ClassVar[int]
    FORWARD_US_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_US_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_US_FIELD_NUMBER: _ClassVar[int]
    USEFUL_SLOTS_FIELD_NUMBER: _ClassVar[int]
    HELD_SLOTS_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_ERROR_US_FIELD_NUMBER: _ClassVar[int]
    TBT_TARGET_US_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    step: int
    at_us: int
    token_budget: int
    decode_tokens: int
    prefill_tokens: int
    admitted: int
    finished: int
    preempted: int
    running: int
    waiting: int
    waiting_tokens: int
    free_blocks: int
    cached_blocks: int
    used_blocks: int
    prefix_hit_tokens: int
    prefix_query_tokens: int
    rejected: int
    step_us: int
    forward_us: int
    sample_us: int
    predicted_us: int
    useful_slots: int
    held_slots: int
    prediction_error_us: int
    tbt_target_us: int
    classes: _containers.RepeatedCompositeFieldContainer[ClassCounts]
    def __init__(self, step: _Optional[int] = ..., at_us: _Optional[int] = ..., token_budget: _Optional[int] = ..., decode_tokens: _Optional[int] = ..., prefill_tokens: _Optional[int] = ..., admitted: _Optional[int] = ..., finished: _Optional[int] = ..., preempted: _Optional[int] = ..., running: _Optional[int] = ..., waiting: _Optional[int] = ..., waiting_tokens: _Optional[int] = ..., free_blocks: _Optional[int] = ..., cached_blocks: _Optional[int] = ..., used_blocks: _Optional[int] = ..., prefix_hit_tokens: _Optional[int] = ..., prefix_query_tokens: _Optional[int] = ..., rejected: _Optional[int] = ..., step_us: _Optional[int] = ..., forward_us: _Optional[int] = ..., sample_us: _Optional[int] = ..., predicted_us: _Optional[int] = ..., useful_slots: _Optional[int] = ..., held_slots: _Optional[int] = ..., prediction_error_us: _Optional[int] = ..., tbt_target_us: _Optional[int] = ..., classes: _Optional[_Iterable[_Union[ClassCounts, _Mapping]]] = ...) -> None: ...

class LogRecord(_message.Message):
    __slots__ = ("header", "event", "plan")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    header: LogHeader
    event: LogEvent
    plan: LogPlan
    def __init__(self, header: _Optional[_Union[LogHeader, _Mapping]] = ..., event: _Optional[_Union[LogEvent, _Mapping]] = ..., plan: _Optional[_Union[LogPlan, _Mapping]] = ...) -> None: ...

class LogHeader(_message.Message):
    __slots__ = ("protocol", "core_settings_json", "build")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CORE_SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    core_settings_json: str
    build: str
    def __init__(self, protocol: _Optional[int] = ..., core_settings_json: _Optional[str] = ..., build: _Optional[str] = ...) -> None: ...

class LogEvent(_message.Message):
    __slots__ = ("at_us", "session_opened", "session_closed", "submit", "stop", "cancel", "executor_up", "executor_down", "result", "grammar_ready", "cancel_by_id", "tick", "drain")
    AT_US_FIELD_NUMBER: _ClassVar[int]
    SESSION_OPENED_FIELD_NUMBER: _ClassVar[int]
    SESSION_CLOSED_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_UP_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_DOWN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    GRAMMAR_READY_FIELD_NUMBER: _ClassVar[int]
    CANCEL_BY_ID_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    session_opened: SessionOpened
    session_closed: SessionClosed
    submit: RoutedSubmit
    stop: RoutedStop
    cancel: RoutedCancel
    executor_up: ExecutorUp
    executor_down: ExecutorDown
    result: _execution_pb2.StepResult
    grammar_ready: _execution_pb2.GrammarReady
    cancel_by_id: CancelByIdRequest
    tick: Tick
    drain: Drain
    def __init__(self, at_us: _Optional[int] = ..., session_opened: _Optional[_Union[SessionOpened, _Mapping]] = ..., session_closed: _Optional[_Union[SessionClosed, _Mapping]] = ..., submit: _Optional[_Union[RoutedSubmit, _Mapping]] = ..., stop: _Optional[_Union[RoutedStop, _Mapping]] = ..., cancel: _Optional[_Union[RoutedCancel, _Mapping]] = ..., executor_up: _Optional[_Union[ExecutorUp, _Mapping]] = ..., executor_down: _Optional[_Union[ExecutorDown, _Mapping]] = ..., result: _Optional[_Union[_execution_pb2.StepResult, _Mapping]] = ..., grammar_ready: _Optional[_Union[_execution_pb2.GrammarReady, _Mapping]] = ..., cancel_by_id: _Optional[_Union[CancelByIdRequest, _Mapping]] = ..., tick: _Optional[_Union[Tick, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("router",)
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    router: int
    def __init__(self, router: _Optional[int] = ...) -> None: ...

class SessionClosed(_message.Message):
    __slots__ = ("router",)
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    router: int
    def __init__(self, router: _Optional[int] = ...) -> None: ...

class RoutedSubmit(_message.Message):
    __slots__ = ("router", "submit")
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_FIELD_NUMBER: _ClassVar[int]
    router: int
    submit: Submit
    def __init__(self, router: _Optional[int] = ..., submit: _Optional[_Union[Submit, _Mapping]] = ...) -> None: ...

class RoutedStop(_message.Message):
    __slots__ = ("router", "stop")
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    router: int
    stop: Stop
    def __init__(self, router: _Optional[int] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ...) -> None: ...

class RoutedCancel(_message.Message):
    __slots__ = ("router", "cancel")
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    router: int
    cancel: Cancel
    def __init__(self, router: _Optional[int] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ...) -> None: ...

class ExecutorUp(_message.Message):
    __slots__ = ("session", "capacity")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    session: int
    capacity: _execution_pb2.Capacity
    def __init__(self, session: _Optional[int] = ..., capacity: _Optional[_Union[_execution_pb2.Capacity, _Mapping]] = ...) -> None: ...

class ExecutorDown(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Tick(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Drain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LogPlan(_message.Message):
    __slots__ = ("at_us", "plan", "outputs_digest")
    AT_US_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    plan: _execution_pb2.StepPlan
    outputs_digest: bytes
    def __init__(self, at_us: _Optional[int] = ..., plan: _Optional[_Union[_execution_pb2.StepPlan, _Mapping]] = ..., outputs_digest: _Optional[bytes] = ...) -> None: ...
