"""A sequence: one answer on its way, from Submit to its last word."""

from dataclasses import dataclass, field
from enum import Enum, auto

from services.scheduler.core.bill import Account
from services.scheduler.core.latency_class import STANDARD, LatencyClass
from services.scheduler.core.loss import Loss
from services.scheduler.core.prefix_index import Parent
from services.wire.chain import block_hashes, extend
from services.wire.message import INT32
from services.wire.scheduling import HASH_BYTES, Submit

TOKEN_BYTES = INT32.itemsize


class State(Enum):
    """Where a sequence is. There are no phases: a running one is (tokens known, tokens computed), see Columns."""

    WAITING = auto()
    RUNNING = auto()
    ENDED = auto()


_NEXT = {
    State.WAITING: frozenset({State.RUNNING, State.ENDED}),
    State.RUNNING: frozenset({State.WAITING, State.ENDED}),
    State.ENDED: frozenset[State](),
}


@dataclass(slots=True, eq=False)
class Sequence:
    """What is known of one answer. Numbers that change with each step live in the Columns, under its slot."""

    serial: int
    router: int
    submit: Submit
    arrived_us: int
    fingerprint: str
    """Of the model that its token ids were made for; empty: no executor had come yet."""
    latency_class: LatencyClass = STANDARD
    limit: int = 0
    """The length at which it ends; 0 until an executor's capacity is known."""
    deadline_us: int = -1
    grace_ends_us: int = -1
    blocked_us: int = -1
    """When it was next and did not fit; -1: that has not been since it ran last."""
    predicted_wait_us: int = 0
    """For a slot, when it arrived; 0: none, or nothing is promised of its first token."""
    hopeless_us: int = -1
    """From then on it is refused unless it has been admitted, see Policy; -1: never."""
    state: State = State.WAITING
    was_preempted: bool = False

    stored: bytearray = field(default_factory=bytearray)
    """Packed token ids: all that are known; while it runs, those of whole blocks (the rest is in the slot's tail)."""
    hashes: list[bytes] = field(default_factory=list)
    """Chain hashes of its first full blocks, as its router says: nothing may rest on them alone."""

    losses: list[Loss] = field(default_factory=list)
    """Those that it has been a suspect of since it last grew."""
    strikes: int = 0
    """What they are worth."""
    strike_mark: int = 0
    """It is cleared of its strikes when more tokens than this are computed."""
    mark: int = 0
    """The most tokens that have ever been computed for it, in answered steps."""
    prompt_rows_sent: int = 1
    """Prompt logprobs of positions below this have gone to the router; position 0 has none."""

    slot: int = -1
    order: int = -1
    """Rank of its newest admission."""
    admitted_length: int = 0
    answered: int = 0
    """Tokens computed by answered chunks since its admission."""
    table: list[int] = field(default_factory=list)
    num_charged: int = 0
    """Tokens that its tenant's service has been charged for, see Fair."""
    num_hits: int = 0
    """Blocks at the start of its table that others have filled."""
    num_published: int = 0
    published_as: Parent | None = None
    """What its next published block stands behind; None: nothing of it can be published any more."""
    account: Account = field(default_factory=Account)

    def __post_init__(self) -> None:
        submit = self.submit
        self.stored += submit.token_ids.tobytes()
        self.num_charged = len(submit.token_ids)
        self.losses += [Loss(at_us=self.arrived_us, num_suspects=1) for _ in range(submit.attempt)]
        self.strikes = submit.attempt
        if submit.accepted_count:
            # Another executor has computed all but the last of these, and its router has the prompt's logprobs.
            self.mark = self.strike_mark = len(submit.token_ids) - 1
            self.prompt_rows_sent = submit.prompt_length

    @property
    def num_stored(self) -> int:
        return len(self.stored) // TOKEN_BYTES

    @property
    def is_spare(self) -> bool:
        return self.latency_class.is_spare

    @property
    def is_waiting(self) -> bool:
        return self.state is State.WAITING

    @property
    def is_running(self) -> bool:
        return self.state is State.RUNNING

    @property
    def is_quarantined(self) -> bool:
        """One more executor lost under it convicts it: until it has grown it runs alone."""
        return self.strikes >= 2

    @property
    def goal(self) -> int:
        """Tokens to compute in all: the one that reaches the limit is drawn, never computed."""
        return max(self.limit - 1, self.submit.prompt_length)

    @property
    def needs_prompt_rows(self) -> bool:
        """Whether prompt logprobs are still owed: then each prompt position has to be computed, none taken from cache."""
        return self.submit.sampling.prompt_logprobs >= 0 and self.prompt_rows_sent < self.submit.prompt_length

    @property
    def identity(self) -> tuple[str, str, int]:
        """Unique among live sequences."""
        return self.submit.tenant, self.submit.request_id, self.submit.answer_index

    def move(self, state: State) -> None:
        assert state in _NEXT[self.state], f"a sequence cannot go from {self.state.name} to {state.name}"
        self.state = state

    def block_tokens(self, block: int, block_size: int) -> bytes:
        """Packed token ids of its full block number `block`."""
        width = block_size * TOKEN_BYTES
        return bytes(self.stored[block * width : (block + 1) * width])

    def chain(self, num_blocks: int, block_size: int) -> list[bytes]:
        """Hashes of at least its first `num_blocks` blocks, all full and stored."""
        if not self.hashes:
            self.hashes = self._first_hashes(block_size)
        while len(self.hashes) < num_blocks:
            parent = self.hashes[-1] if self.hashes else self.submit.chain_root
            self.hashes.append(extend(parent, self.block_tokens(len(self.hashes), block_size)))
        return self.hashes

    def _first_hashes(self, block_size: int) -> list[bytes]:
        """The router's, or our own where it sent another number of them: it may not have known the block size."""
        sent, tokens = self.submit.block_hashes, self.submit.token_ids
        if len(sent) == len(tokens) // block_size * HASH_BYTES:
            return [sent[at : at + HASH_BYTES] for at in range(0, len(sent), HASH_BYTES)]
        return list(block_hashes(self.submit.chain_root, tokens, block_size))
