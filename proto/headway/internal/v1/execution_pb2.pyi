from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RequestKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REQUEST_KIND_GENERATE: _ClassVar[RequestKind]
    REQUEST_KIND_EMBED: _ClassVar[RequestKind]
REQUEST_KIND_GENERATE: RequestKind
REQUEST_KIND_EMBED: RequestKind

class ToExecutor(_message.Message):
    __slots__ = ("protocol", "session", "reset", "plan")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    session: int
    reset: Reset
    plan: StepPlan
    def __init__(self, protocol: _Optional[int] = ..., session: _Optional[int] = ..., reset: _Optional[_Union[Reset, _Mapping]] = ..., plan: _Optional[_Union[StepPlan, _Mapping]] = ...) -> None: ...

class FromExecutor(_message.Message):
    __slots__ = ("protocol", "session", "hello", "capacity", "result", "heartbeat", "grammar_ready")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    GRAMMAR_READY_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    session: int
    hello: ExecutorHello
    capacity: Capacity
    result: StepResult
    heartbeat: ExecutorHeartbeat
    grammar_ready: GrammarReady
    def __init__(self, protocol: _Optional[int] = ..., session: _Optional[int] = ..., hello: _Optional[_Union[ExecutorHello, _Mapping]] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ..., result: _Optional[_Union[StepResult, _Mapping]] = ..., heartbeat: _Optional[_Union[ExecutorHeartbeat, _Mapping]] = ..., grammar_ready: _Optional[_Union[GrammarReady, _Mapping]] = ...) -> None: ...

class Reset(_message.Message):
    __slots__ = ("max_slots", "max_step_tokens")
    MAX_SLOTS_FIELD_NUMBER: _ClassVar[int]
    MAX_STEP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    max_slots: int
    max_step_tokens: int
    def __init__(self, max_slots: _Optional[int] = ..., max_step_tokens: _Optional[int] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "bias_ids", "bias_values", "allowed_ids", "banned_ids", "stop_ids", "ignore_eos", "min_tokens", "logprobs", "prompt_logprobs")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    BIAS_IDS_FIELD_NUMBER: _ClassVar[int]
    BIAS_VALUES_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_IDS_FIELD_NUMBER: _ClassVar[int]
    BANNED_IDS_FIELD_NUMBER: _ClassVar[int]
    STOP_IDS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    bias_ids: bytes
    bias_values: bytes
    allowed_ids: bytes
    banned_ids: bytes
    stop_ids: bytes
    ignore_eos: bool
    min_tokens: int
    logprobs: int
    prompt_logprobs: int
    def __init__(self, temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., bias_ids: _Optional[bytes] = ..., bias_values: _Optional[bytes] = ..., allowed_ids: _Optional[bytes] = ..., banned_ids: _Optional[bytes] = ..., stop_ids: _Optional[bytes] = ..., ignore_eos: _Optional[bool] = ..., min_tokens: _Optional[int] = ..., logprobs: _Optional[int] = ..., prompt_logprobs: _Optional[int] = ...) -> None: ...

class AdmittedSlot(_message.Message):
    __slots__ = ("slot", "token_ids", "prompt_length", "computed_length", "token_limit", "blocks", "seed", "sampling", "grammar", "adapter", "kind", "traceparent")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    TOKEN_LIMIT_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    GRAMMAR_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    slot: int
    token_ids: bytes
    prompt_length: int
    computed_length: int
    token_limit: int
    blocks: bytes
    seed: int
    sampling: Sampling
    grammar: str
    adapter: str
    kind: RequestKind
    traceparent: str
    def __init__(self, slot: _Optional[int] = ..., token_ids: _Optional[bytes] = ..., prompt_length: _Optional[int] = ..., computed_length: _Optional[int] = ..., token_limit: _Optional[int] = ..., blocks: _Optional[bytes] = ..., seed: _Optional[int] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., grammar: _Optional[str] = ..., adapter: _Optional[str] = ..., kind: _Optional[_Union[RequestKind, str]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class StepPlan(_message.Message):
    __slots__ = ("plan", "released", "paused", "admitted", "append_slots", "append_blocks", "append_groups", "started", "chunk_slots", "chunk_counts", "trim_slots", "trim_counts", "transfer_slots", "transfer_blocks", "transfer_targets", "time_limit_ms")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    APPEND_SLOTS_FIELD_NUMBER: _ClassVar[int]
    APPEND_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    APPEND_GROUPS_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    CHUNK_SLOTS_FIELD_NUMBER: _ClassVar[int]
    CHUNK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    TRIM_SLOTS_FIELD_NUMBER: _ClassVar[int]
    TRIM_COUNTS_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_SLOTS_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_TARGETS_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_MS_FIELD_NUMBER: _ClassVar[int]
    plan: int
    released: bytes
    paused: bytes
    admitted: _containers.RepeatedCompositeFieldContainer[AdmittedSlot]
    append_slots: bytes
    append_blocks: bytes
    append_groups: bytes
    started: bytes
    chunk_slots: bytes
    chunk_counts: bytes
    trim_slots: bytes
    trim_counts: bytes
    transfer_slots: bytes
    transfer_blocks: bytes
    transfer_targets: bytes
    time_limit_ms: int
    def __init__(self, plan: _Optional[int] = ..., released: _Optional[bytes] = ..., paused: _Optional[bytes] = ..., admitted: _Optional[_Iterable[_Union[AdmittedSlot, _Mapping]]] = ..., append_slots: _Optional[bytes] = ..., append_blocks: _Optional[bytes] = ..., append_groups: _Optional[bytes] = ..., started: _Optional[bytes] = ..., chunk_slots: _Optional[bytes] = ..., chunk_counts: _Optional[bytes] = ..., trim_slots: _Optional[bytes] = ..., trim_counts: _Optional[bytes] = ..., transfer_slots: _Optional[bytes] = ..., transfer_blocks: _Optional[bytes] = ..., transfer_targets: _Optional[bytes] = ..., time_limit_ms: _Optional[int] = ...) -> None: ...

class ExecutorHello(_message.Message):
    __slots__ = ("instance", "pid", "pid_namespace", "start_phase")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    PID_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    START_PHASE_FIELD_NUMBER: _ClassVar[int]
    instance: int
    pid: int
    pid_namespace: int
    start_phase: str
    def __init__(self, instance: _Optional[int] = ..., pid: _Optional[int] = ..., pid_namespace: _Optional[int] = ..., start_phase: _Optional[str] = ...) -> None: ...

class KvGroup(_message.Message):
    __slots__ = ("num_blocks", "block_size", "bytes_per_token")
    NUM_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    num_blocks: int
    block_size: int
    bytes_per_token: int
    def __init__(self, num_blocks: _Optional[int] = ..., block_size: _Optional[int] = ..., bytes_per_token: _Optional[int] = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("groups", "max_slots", "max_step_tokens", "card")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MAX_SLOTS_FIELD_NUMBER: _ClassVar[int]
    MAX_STEP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[KvGroup]
    max_slots: int
    max_step_tokens: int
    card: ModelCard
    def __init__(self, groups: _Optional[_Iterable[_Union[KvGroup, _Mapping]]] = ..., max_slots: _Optional[int] = ..., max_step_tokens: _Optional[int] = ..., card: _Optional[_Union[ModelCard, _Mapping]] = ...) -> None: ...

class ModelCard(_message.Message):
    __slots__ = ("name", "fingerprint", "numerics_digest", "batch_invariant", "context_length", "vocab_size", "eos_ids", "bos_id", "tokenizer_json", "chat_template", "special_tokens_json", "max_logprobs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    NUMERICS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    BATCH_INVARIANT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    EOS_IDS_FIELD_NUMBER: _ClassVar[int]
    BOS_ID_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_JSON_FIELD_NUMBER: _ClassVar[int]
    CHAT_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_JSON_FIELD_NUMBER: _ClassVar[int]
    MAX_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    name: str
    fingerprint: str
    numerics_digest: str
    batch_invariant: bool
    context_length: int
    vocab_size: int
    eos_ids: bytes
    bos_id: int
    tokenizer_json: str
    chat_template: str
    special_tokens_json: str
    max_logprobs: int
    def __init__(self, name: _Optional[str] = ..., fingerprint: _Optional[str] = ..., numerics_digest: _Optional[str] = ..., batch_invariant: _Optional[bool] = ..., context_length: _Optional[int] = ..., vocab_size: _Optional[int] = ..., eos_ids: _Optional[bytes] = ..., bos_id: _Optional[int] = ..., tokenizer_json: _Optional[str] = ..., chat_template: _Optional[str] = ..., special_tokens_json: _Optional[str] = ..., max_logprobs: _Optional[int] = ...) -> None: ...

class GrammarReady(_message.Message):
    __slots__ = ("slot", "error")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    slot: int
    error: str
    def __init__(self, slot: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class LogprobRows(_message.Message):
    __slots__ = ("slots", "positions", "chosen", "ranks", "top_counts", "top_ids", "top_logprobs")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    TOP_COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOP_IDS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    slots: bytes
    positions: bytes
    chosen: bytes
    ranks: bytes
    top_counts: bytes
    top_ids: bytes
    top_logprobs: bytes
    def __init__(self, slots: _Optional[bytes] = ..., positions: _Optional[bytes] = ..., chosen: _Optional[bytes] = ..., ranks: _Optional[bytes] = ..., top_counts: _Optional[bytes] = ..., top_ids: _Optional[bytes] = ..., top_logprobs: _Optional[bytes] = ...) -> None: ...

class StepResult(_message.Message):
    __slots__ = ("plan", "slots", "counts", "tokens", "stopped", "failed", "logprobs", "prompt_logprobs", "update_us", "forward_us", "sample_us", "step_us")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_US_FIELD_NUMBER: _ClassVar[int]
    FORWARD_US_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_US_FIELD_NUMBER: _ClassVar[int]
    STEP_US_FIELD_NUMBER: _ClassVar[int]
    plan: int
    slots: bytes
    counts: bytes
    tokens: bytes
    stopped: bytes
    failed: bytes
    logprobs: LogprobRows
    prompt_logprobs: LogprobRows
    update_us: int
    forward_us: int
    sample_us: int
    step_us: int
    def __init__(self, plan: _Optional[int] = ..., slots: _Optional[bytes] = ..., counts: _Optional[bytes] = ..., tokens: _Optional[bytes] = ..., stopped: _Optional[bytes] = ..., failed: _Optional[bytes] = ..., logprobs: _Optional[_Union[LogprobRows, _Mapping]] = ..., prompt_logprobs: _Optional[_Union[LogprobRows, _Mapping]] = ..., update_us: _Optional[int] = ..., forward_us: _Optional[int] = ..., sample_us: _Optional[int] = ..., step_us: _Optional[int] = ...) -> None: ...

class ExecutorHeartbeat(_message.Message):
    __slots__ = ("instance", "running_plan", "running_ms", "start_phase", "pid", "pid_namespace")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_PLAN_FIELD_NUMBER: _ClassVar[int]
    RUNNING_MS_FIELD_NUMBER: _ClassVar[int]
    START_PHASE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    PID_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    instance: int
    running_plan: int
    running_ms: int
    start_phase: str
    pid: int
    pid_namespace: int
    def __init__(self, instance: _Optional[int] = ..., running_plan: _Optional[int] = ..., running_ms: _Optional[int] = ..., start_phase: _Optional[str] = ..., pid: _Optional[int] = ..., pid_namespace: _Optional[int] = ...) -> None: ...
