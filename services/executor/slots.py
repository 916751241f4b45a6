"""The slots: what the executor knows of each sequence, and how a plan's changes are applied to it."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from services.executor.blocks import BLOCK_SIZE
from services.executor.sampling import always_adjusts, bars_stops
from services.wire.execution import AdmittedSlot, RequestKind, StepPlan


class InvalidPlan(ValueError):
    """A plan that contradicts what went before it: the scheduler has a bug, and its session cannot go on."""


class Slot:
    """One sequence: its tokens, its blocks, and how far it is.

    `length` tokens are known; keys and values of the first `computed` are in the blocks.
    """

    __slots__ = (
        "_always_adjusts",
        "admitted",
        "block_count",
        "block_table",
        "blocks_address",
        "computed",
        "ended",
        "length",
        "stop_ids",
        "token_buffer",
    )

    def __init__(self, admitted: AdmittedSlot, eos_ids: Iterable[int]) -> None:
        self.admitted = admitted
        self.length = len(admitted.token_ids)
        self.computed = admitted.computed_length
        self.ended = False
        self.token_buffer = np.zeros(admitted.token_limit, np.int32)
        self.token_buffer[: self.length] = admitted.token_ids
        self.block_table = np.zeros(-(-admitted.token_limit // BLOCK_SIZE), np.int32)
        self.block_count = 0
        self.blocks_address = self.block_table.ctypes.data
        sampling = admitted.sampling
        self._always_adjusts = always_adjusts(sampling)
        self.stop_ids = frozenset(map(int, sampling.stop_ids)) | (frozenset() if sampling.ignore_eos else {*eos_ids})

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """The known tokens."""
        return self.token_buffer[: self.length]

    @property
    def prompt(self) -> npt.NDArray[np.int32]:
        """The tokens that the client sent."""
        return self.token_buffer[: self.admitted.prompt_length]

    @property
    def blocks(self) -> npt.NDArray[np.int32]:
        """The block table."""
        return self.block_table[: self.block_count]

    @property
    def num_output_tokens(self) -> int:
        """Known tokens that are not of the prompt."""
        return self.length - self.admitted.prompt_length

    @property
    def adjusts_logits(self) -> bool:
        """Whether the next token's logits are others than the model's."""
        return self._always_adjusts or bars_stops(self.admitted.sampling, self.num_output_tokens, self.stop_ids)

    @property
    def may_draw(self) -> bool:
        """Whether the token after the known ones is wanted."""
        return not self.ended and self.length < self.admitted.token_limit

    def append_block(self, block: int) -> None:
        """Adds a block at the end of the table."""
        if self.block_count == len(self.block_table):
            raise InvalidPlan(f"slot {self.admitted.slot} is given more blocks than its token limit needs")
        self.block_table[self.block_count] = block
        self.block_count += 1

    def append_token(self, token: int) -> bool:
        """Adds a drawn token; true where it is a stop token."""
        assert self.may_draw
        self.token_buffer[self.length] = token
        self.length += 1
        stopped = token in self.stop_ids
        self.ended = stopped
        return stopped


class Slots:
    """All slots of a session and the decode set."""

    def __init__(
        self, *, max_slots: int, num_blocks: int, context_length: int, vocab_size: int, eos_ids: tuple[int, ...]
    ) -> None:
        self._slots: list[Slot | None] = [None] * max_slots
        self._decoding: set[int] = set()
        self._num_blocks = num_blocks
        self._context_length = context_length
        self._vocab_size = vocab_size
        self._eos_ids = eos_ids

    def apply(self, plan: StepPlan) -> None:
        """Applies a plan's changes in the order that the contract gives: released, paused, admitted, appends, started.

        Raises:
            InvalidPlan: the session is broken; only a reset makes the slots whole again.
        """
        for index in plan.released.tolist():
            self.get(index)
            self._slots[index] = None
            self._decoding.discard(index)
        for index in plan.paused.tolist():
            self.get(index)
            self._decoding.discard(index)
        for admitted in plan.admitted:
            self._admit(admitted)
        for index, block in zip(plan.append_slots.tolist(), plan.append_blocks.tolist(), strict=True):
            self._append_block(self.get(index), block)
        for index in plan.started.tolist():
            self.get(index)
            self._decoding.add(index)

    def get(self, index: int) -> Slot:
        """The sequence in a slot."""
        slot = self._slots[index] if 0 <= index < len(self._slots) else None
        if slot is None:
            raise InvalidPlan(f"slot {index} holds no sequence")
        return slot

    def decoding(self) -> list[Slot]:
        """The decode set but for those that have ended by themselves, by slot."""
        slots = self._slots
        return [slot for index in sorted(self._decoding) if (slot := slots[index]) and slot.may_draw]

    def is_decoding(self, index: int) -> bool:
        """Whether a slot is in the decode set."""
        return index in self._decoding

    def _admit(self, admitted: AdmittedSlot) -> None:
        index = admitted.slot
        if not 0 <= index < len(self._slots) or self._slots[index] is not None:
            raise InvalidPlan(f"slot {index} cannot be given to a new sequence")
        if admitted.kind is not RequestKind.GENERATE or admitted.grammar or admitted.adapter:
            raise InvalidPlan(f"slot {index} asks for a kind, grammar or adapter that this executor does not have")
        if admitted.token_limit > self._context_length:
            raise InvalidPlan(f"slot {index} may grow to {admitted.token_limit} tokens, past the model's context")
        if admitted.token_ids.min() < 0 or admitted.token_ids.max() >= self._vocab_size:
            raise InvalidPlan(f"slot {index} holds a token id outside the vocabulary")
        slot = Slot(admitted, self._eos_ids)
        for block in admitted.blocks.tolist():
            self._append_block(slot, block)
        self._slots[index] = slot

    def _append_block(self, slot: Slot, block: int) -> None:
        if not 0 <= block < self._num_blocks:
            raise InvalidPlan(f"block {block} lies outside the pool of {self._num_blocks}")
        slot.append_block(block)
