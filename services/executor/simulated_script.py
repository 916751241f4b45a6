"""What the simulated model answers: tokens and log-probabilities as pure functions of seed, tokens and position."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

from services.executor.simulated_card import EOS_IDS, IM_END_ID, IM_START_ID, VOCAB_SIZE
from services.wire.execution import LogprobRows, Sampling
from services.wire.message import float32_column, int32_column

ScriptName = Literal["echo", "count", "random"]
Answer = Callable[[int, int], int]  # (position, the token before it) -> the token that the model likes best there

_USER_TURN = (IM_START_ID, *b"user\n")
_MASK_64 = (1 << 64) - 1
_ONE_EOS_IN = 61  # tokens of the random script
_PROMPT_RANKS = 4


def answer_of(script: ScriptName, prompt: Sequence[int], seed: int) -> Answer:
    """The script's answer to one prompt."""
    prompt_length = len(prompt)
    if script == "echo":
        text = (*_last_user_text(prompt), IM_END_ID)
        return lambda position, _before: text[(position - prompt_length) % len(text)]
    if script == "count":
        return lambda position, _before: _counting(position - prompt_length)
    return lambda position, before: _random_token(mix(seed, position, before))


def draw(preferred: int, position: int, output_index: int, sampling: Sampling) -> int | None:
    """The preferred token or, where the request forbids it, another that is a function of the position; None: none is left."""
    forbidden = set(sampling.banned_ids.tolist())
    if output_index < sampling.min_tokens:
        forbidden |= {*EOS_IDS, *sampling.stop_ids.tolist()}
    allowed = sampling.allowed_ids.tolist()
    if preferred not in forbidden and (not allowed or preferred in allowed):
        return preferred
    candidates = [token for token in (allowed or range(VOCAB_SIZE)) if token not in forbidden]
    return candidates[mix(preferred, position) % len(candidates)] if candidates else None


def is_stop(token: int, sampling: Sampling) -> bool:
    """Whether `token` ends the sequence."""
    return (token in EOS_IDS and not sampling.ignore_eos) or token in sampling.stop_ids.tolist()


def mix(*values: int) -> int:
    """64 well-mixed bits of the values (the finalizer of SplitMix64 after each)."""
    state = 0
    for value in values:
        state = (state + value + 0x9E3779B97F4A7C15) & _MASK_64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK_64
        state ^= state >> 31
    return state


class LogprobTable:
    """Collects rows under the simulated distribution: the token of rank r has probability 2 ** -r."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int]] = []  # slot, position, rank, number of tops
        self._top_ids: list[int] = []
        self._top_logprobs: list[float] = []

    def add_drawn(self, slot: int, position: int, token: int, num_tops: int) -> None:
        """A row for a token that was drawn: the best one."""
        self._add(slot, position, token, num_tops, rank=1)

    def add_prompt(self, slot: int, position: int, token: int, num_tops: int) -> None:
        """A row for a token of the prompt: its rank is a function of token and position."""
        self._add(slot, position, token, num_tops, rank=1 + mix(position, token) % _PROMPT_RANKS)

    def _add(self, slot: int, position: int, token: int, num_tops: int, rank: int) -> None:
        self._rows.append((slot, position, rank, num_tops))
        self._top_ids.extend((token + 1 - rank + place) % VOCAB_SIZE for place in range(num_tops))
        self._top_logprobs.extend(-(place + 1) * math.log(2) for place in range(num_tops))

    def rows(self) -> LogprobRows | None:
        """The table as a message; None when it is empty."""
        if not self._rows:
            return None
        slots, positions, ranks, top_counts = zip(*self._rows, strict=True)
        return LogprobRows(
            slots=int32_column(slots),
            positions=int32_column(positions),
            chosen=float32_column([-rank * math.log(2) for rank in ranks]),
            ranks=int32_column(ranks),
            top_counts=int32_column(top_counts),
            top_ids=int32_column(self._top_ids),
            top_logprobs=float32_column(self._top_logprobs),
        )


def _last_user_text(prompt: Sequence[int]) -> list[int]:
    """The last user turn of a ChatML prompt; all bytes of a prompt that has none."""
    width = len(_USER_TURN)
    for start in range(len(prompt) - width, -1, -1):
        if tuple(prompt[start : start + width]) == _USER_TURN:
            turn = list(prompt[start + width :])
            return turn[: turn.index(IM_END_ID)] if IM_END_ID in turn else turn
    return [token for token in prompt if token < IM_START_ID - 1]


def _counting(index: int) -> int:
    """Byte `index` of the endless text "1 2 3 4 ..."."""
    size = 1024
    while size <= index:
        size *= 2
    return _counted(size)[index]


@cache
def _counted(size: int) -> bytes:
    text = bytearray()
    number = 0
    while len(text) < size:
        number += 1
        text += b"%d " % number
    return bytes(text)


def _random_token(bits: int) -> int:
    """A printable ASCII byte, now and then the end."""
    return IM_END_ID if bits % _ONE_EOS_IN == 0 else 32 + (bits >> 8) % 95
