"""Sampling: the next token as a pure function of (logits, parameters, seed, position), one row at a time.

Order: bias, penalties, masks, temperature, top-k, top-p, min-p, draw. Candidates stand by logit, then id. Weights are
exp((logit - best) / temperature) in float64, summed one after the other in that order.
"""

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.wire.execution import Sampling

Logits = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

_LARGEST = np.finfo(np.float32).max
_FIRST_GAP = 3.0
"""A prefilter starts with the candidates whose weight is at least exp(-gap), and doubles the gap."""
_LAST_GAP = 50.0
"""Past this gap, all are candidates."""


@dataclass(frozen=True, slots=True)
class History:
    """What the next token may depend on beside its logits."""

    tokens: Ints
    """All known tokens; the index of the next one is their number."""
    prompt_length: int
    stop_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Draw:
    """How one token is drawn, beside the logits."""

    sampling: Sampling
    uniform: float
    """From [0, 1); not read at temperature 0."""


def always_adjusts(sampling: Sampling) -> bool:
    """Whether `adjusted` can change logits whatever came before."""
    return _shifts(sampling) or len(sampling.allowed_ids) > 0 or len(sampling.banned_ids) > 0


def bars_stops(sampling: Sampling, num_output_tokens: int, stop_ids: frozenset[int]) -> bool:
    """Whether it is too early for a token that would stop, so that `adjusted` masks them."""
    return num_output_tokens < sampling.min_tokens and len(stop_ids) > 0


def _shifts(sampling: Sampling) -> bool:
    """Whether some logits get another number, as against a mask."""
    return (
        len(sampling.bias_ids) > 0
        or sampling.repetition_penalty != 1.0
        or sampling.presence_penalty != 0.0
        or sampling.frequency_penalty != 0.0
    )


def adjusted(logits: Logits, sampling: Sampling, history: History) -> Logits:
    """Logits ([vocabulary], float32, not changed) after bias, penalties and masks.

    What bias and penalties make of a finite logit is finite: beyond the range of float32 it stays at its end. A repetition
    penalty of 1e-45, which the contract allows, so means "by all means one of the tokens that were seen".
    """
    logits = logits.copy()
    if _shifts(sampling):
        with np.errstate(over="ignore"):  # clipped at once
            np.add.at(logits, sampling.bias_ids, sampling.bias_values)
        _penalize(_clipped(logits), sampling, history)
    if len(sampling.allowed_ids):
        masked = np.full_like(logits, -np.inf)
        masked[sampling.allowed_ids] = logits[sampling.allowed_ids]
        logits = masked
    logits[sampling.banned_ids] = -np.inf
    if bars_stops(sampling, len(history.tokens) - history.prompt_length, history.stop_ids):
        logits[list(history.stop_ids)] = -np.inf
    return logits


def _penalize(logits: Logits, sampling: Sampling, history: History) -> None:
    if sampling.repetition_penalty != 1.0:
        seen = np.unique(history.tokens)
        penalty = np.float32(sampling.repetition_penalty)
        with np.errstate(over="ignore"):  # clipped at once
            logits[seen] = np.where(logits[seen] > 0, logits[seen] / penalty, logits[seen] * penalty)
        _clipped(logits)
    if sampling.presence_penalty != 0.0 or sampling.frequency_penalty != 0.0:
        ids, counts = np.unique(history.tokens[history.prompt_length :], return_counts=True)
        with np.errstate(over="ignore"):
            logits[ids] -= np.float32(sampling.presence_penalty)
            logits[ids] -= np.float32(sampling.frequency_penalty) * counts.astype(np.float32)
        _clipped(logits)


def _clipped(logits: Logits) -> Logits:
    """The same array, where nothing is infinite any more."""
    return np.clip(logits, -_LARGEST, _LARGEST, out=logits)


def draw(logits: Logits, sampling: Sampling, uniform: float) -> int:
    """The token that `uniform`, from [0, 1), chooses.

    Args:
        logits: [vocabulary], after `adjusted`; the largest is finite, others may be -inf.
        sampling: temperature, top_k, top_p, min_p; temperature 0 takes the best, of equals the smallest id.
        uniform: not read at temperature 0.
    """
    if sampling.temperature == 0.0:
        return int(logits.argmax())
    best = float(logits.max())
    with np.errstate(over="ignore"):  # so cold that the others weigh nothing
        weights = np.exp((logits.astype(np.float64) - best) / sampling.temperature)
    gap = _FIRST_GAP
    while True:
        floor = best - gap * sampling.temperature if gap < _LAST_GAP else -np.inf
        ids = np.flatnonzero(logits >= floor)
        ids = ids[np.argsort(-logits[ids], kind="stable")]
        drawn = _draw_of(ids, weights, sampling, uniform)
        if drawn is not None:
            return drawn
        gap *= 2


def _draw_of(ids: npt.NDArray[np.intp], weights: Floats, sampling: Sampling, uniform: float) -> int | None:
    """The drawn token, if `ids`, the first candidates in order, suffice to know it: more would not change it."""
    size = len(weights)
    if len(ids) < sampling.top_k < size:
        return None
    ordered = weights[ids]
    cumulated = np.cumsum(ordered)
    top_k = sampling.top_k if 0 < sampling.top_k < size else size
    whole = float(cumulated[top_k - 1]) if top_k < size else float(weights.sum())
    kept = max(1, min(top_k, _kept_by_mass(ordered, cumulated, whole, sampling)))
    if kept == size > len(ids) and (sampling.top_p < 1.0 or sampling.min_p > 0.0):
        return None
    mass = float(cumulated[kept - 1]) if kept < size else whole
    index = int(np.searchsorted(cumulated[:kept], uniform * mass, side="right"))
    if index == len(ids) < kept:
        return None
    # Rounding may put the target at the very end: then it is the last candidate that has any weight.
    return int(ids[min(index, int(np.count_nonzero(ordered[:kept])) - 1)])


def _kept_by_mass(ordered: Floats, cumulated: Floats, whole: float, sampling: Sampling) -> int:
    """How many of the candidates top-p and min-p keep; as good as endless where these candidates do not tell."""
    kept = sys.maxsize
    if sampling.top_p < 1.0:
        reached = np.flatnonzero(cumulated >= sampling.top_p * whole)
        kept = int(reached[0]) + 1 if len(reached) else kept
    if sampling.min_p > 0.0:
        too_light = np.flatnonzero(ordered < sampling.min_p)
        kept = min(kept, int(too_light[0])) if len(too_light) else kept
    return kept
