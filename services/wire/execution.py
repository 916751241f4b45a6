"""What scheduler and executor say to each other. Field meanings: proto/headway/internal/v1/execution.proto."""

from dataclasses import field
from enum import IntEnum

from services.wire.message import (
    Float32Column,
    Int32Column,
    Message,
    message,
    no_floats,
    no_ints,
    require,
    total,
)

PROTOCOL = 1


def main_identity(instance: int) -> bytes:
    """The ZeroMQ identity of an executor's main socket: a scheduler can address an instance that it only heard beat."""
    return b"M" + instance.to_bytes(8, "little")


def heartbeat_identity(instance: int) -> bytes:
    """The ZeroMQ identity of an executor's heartbeat socket."""
    return b"H" + instance.to_bytes(8, "little")


class RequestKind(IntEnum):
    GENERATE = 0
    EMBED = 1


@message
class Sampling(Message):
    """How a sequence's next token is drawn and when it stops."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    bias_ids: Int32Column = field(default_factory=no_ints)
    bias_values: Float32Column = field(default_factory=no_floats)
    allowed_ids: Int32Column = field(default_factory=no_ints)
    banned_ids: Int32Column = field(default_factory=no_ints)
    stop_ids: Int32Column = field(default_factory=no_ints)
    ignore_eos: bool = False
    min_tokens: int = 0
    logprobs: int = -1
    prompt_logprobs: int = -1

    def __post_init__(self) -> None:
        require(len(self.bias_ids) == len(self.bias_values), "a logit bias needs one value for each token id")
        require(self.temperature >= 0, "temperature is negative or not a number")
        require(self.min_tokens >= 0, "min_tokens is negative")


GREEDY = Sampling(temperature=0.0)


@message
class Reset(Message):
    max_slots: int
    max_step_tokens: int

    def __post_init__(self) -> None:
        require(self.max_slots > 0 and self.max_step_tokens > 0, "a reset needs room for a slot and a token")


@message
class AdmittedSlot(Message):
    slot: int
    token_ids: Int32Column
    prompt_length: int
    computed_length: int = 0
    token_limit: int
    blocks: Int32Column
    seed: int = 0
    sampling: Sampling
    grammar: str = ""
    adapter: str = ""
    kind: RequestKind = RequestKind.GENERATE
    traceparent: str = ""

    def __post_init__(self) -> None:
        known = len(self.token_ids)
        require(self.slot >= 0, "a slot is negative")
        require(0 < self.prompt_length <= known, "the prompt is empty or longer than the known tokens")
        require(0 <= self.computed_length < known, "computed_length must leave the last known token to compute")
        require(known <= self.token_limit, "more tokens are known than the limit allows")


@message
class StepPlan(Message):
    """The change of one step against the one before it; see the proto for the order in which it is applied."""

    plan: int
    released: Int32Column = field(default_factory=no_ints)
    paused: Int32Column = field(default_factory=no_ints)
    admitted: tuple[AdmittedSlot, ...] = ()
    append_slots: Int32Column = field(default_factory=no_ints)
    append_blocks: Int32Column = field(default_factory=no_ints)
    append_groups: Int32Column = field(default_factory=no_ints)
    started: Int32Column = field(default_factory=no_ints)
    chunk_slots: Int32Column = field(default_factory=no_ints)
    chunk_counts: Int32Column = field(default_factory=no_ints)
    trim_slots: Int32Column = field(default_factory=no_ints)
    trim_counts: Int32Column = field(default_factory=no_ints)
    transfer_slots: Int32Column = field(default_factory=no_ints)
    transfer_blocks: Int32Column = field(default_factory=no_ints)
    transfer_targets: Int32Column = field(default_factory=no_ints)
    time_limit_ms: int = 0

    def __post_init__(self) -> None:
        require(self.plan > 0, "plans are numbered from 1")
        require(len(self.append_slots) == len(self.append_blocks), "append columns differ in length")
        require(len(self.append_groups) in (0, len(self.append_slots)), "append columns differ in length")
        require(len(self.chunk_slots) == len(self.chunk_counts), "chunk columns differ in length")


@message
class ExecutorHello(Message):
    instance: int
    pid: int
    pid_namespace: int
    start_phase: str = "ready"


@message
class KvGroup(Message):
    num_blocks: int
    block_size: int
    bytes_per_token: int

    def __post_init__(self) -> None:
        require(self.num_blocks > 0 and self.block_size > 0, "a KV group without blocks")


@message
class ModelCard(Message):
    """All that router and scheduler know of the model."""

    name: str
    fingerprint: str
    numerics_digest: str
    batch_invariant: bool
    context_length: int
    vocab_size: int
    eos_ids: Int32Column = field(default_factory=no_ints)
    bos_id: int = -1
    tokenizer_json: str = ""
    chat_template: str = ""
    special_tokens_json: str = "{}"
    max_logprobs: int = 20

    def __post_init__(self) -> None:
        require(self.context_length > 0 and self.vocab_size > 0, "a model without context or vocabulary")


@message
class Capacity(Message):
    groups: tuple[KvGroup, ...]
    max_slots: int
    max_step_tokens: int
    card: ModelCard

    def __post_init__(self) -> None:
        require(len(self.groups) == 1, "exactly one KV group is supported")
        require(self.max_slots > 0 and self.max_step_tokens > 0, "an executor without room for a slot and a token")


@message
class GrammarReady(Message):
    slot: int
    error: str = ""


@message
class LogprobRows(Message):
    """One row for one token; `slots` holds handles on the way to a router."""

    slots: Int32Column = field(default_factory=no_ints)
    positions: Int32Column = field(default_factory=no_ints)
    chosen: Float32Column = field(default_factory=no_floats)
    ranks: Int32Column = field(default_factory=no_ints)
    top_counts: Int32Column = field(default_factory=no_ints)
    top_ids: Int32Column = field(default_factory=no_ints)
    top_logprobs: Float32Column = field(default_factory=no_floats)

    def __post_init__(self) -> None:
        rows = len(self.slots)
        same = all(len(column) == rows for column in (self.positions, self.chosen, self.ranks, self.top_counts))
        require(same, "logprob columns differ in length")
        require(len(self.top_ids) == len(self.top_logprobs) == total(self.top_counts), "top logprobs miss rows")


@message
class StepResult(Message):
    plan: int
    slots: Int32Column = field(default_factory=no_ints)
    counts: Int32Column = field(default_factory=no_ints)
    tokens: Int32Column = field(default_factory=no_ints)
    stopped: Int32Column = field(default_factory=no_ints)
    failed: Int32Column = field(default_factory=no_ints)
    logprobs: LogprobRows | None = None
    prompt_logprobs: LogprobRows | None = None
    update_us: int = 0
    forward_us: int = 0
    sample_us: int = 0
    step_us: int = 0

    def __post_init__(self) -> None:
        require(len(self.slots) == len(self.counts), "result columns differ in length")
        require(total(self.counts) == len(self.tokens), "counts do not add up to the tokens")


@message
class ExecutorHeartbeat(Message):
    instance: int
    running_plan: int = 0
    running_ms: int = 0
    start_phase: str = "ready"
    pid: int = 0
    pid_namespace: int = 0


@message
class ToExecutor(Message):
    protocol: int = PROTOCOL
    session: int
    body: Reset | StepPlan


@message
class FromExecutor(Message):
    protocol: int = PROTOCOL
    session: int
    body: ExecutorHello | Capacity | StepResult | ExecutorHeartbeat | GrammarReady
