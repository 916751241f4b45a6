"""The next tokens of some slots: adjusted, then drawn by the back end, many rows at a time."""

from collections.abc import Sequence

import numpy as np

from services.executor.backends.backend import Backend, Ints, Rows
from services.executor.sampling import Draw, History, adjusted
from services.executor.slots import Slot
from services.executor.uniform import uniform


def next_tokens(backend: Backend, slots: Sequence[Slot], logits: Rows) -> Ints:
    """The token at index `slot.length` of each slot.

    Args:
        backend: made the logits.
        slots: whose tokens are wanted.
        logits: row i is that of slot i; not changed.

    Returns:
        [slots]; -1 where a logit is not finite, and where masks leave no token.
    """
    greedy: list[int] = []
    drawn: list[int] = []
    changed: list[int] = []
    for row, slot in enumerate(slots):
        if slot.adjusts_logits:
            changed.append(row)
        elif slot.admitted.sampling.temperature > 0.0:
            drawn.append(row)
        else:
            greedy.append(row)
    ids = np.empty(len(slots), np.int32)
    if best := greedy + changed:  # of those that are changed, only whether they are finite
        ids[best] = backend.best(logits, np.array(best, np.int32))
    if drawn:
        ids[drawn] = backend.draw(logits, np.array(drawn, np.int32), [_draw(slots[row]) for row in drawn])
    if changed := [row for row in changed if ids[row] >= 0]:
        rows = np.stack([_adjusted(slots[row], logits[row]) for row in changed])
        draws = [_draw(slots[row]) for row in changed]
        ids[changed] = backend.draw(rows, np.arange(len(rows), dtype=np.int32), draws, are_masked=True)
    return ids


def _draw(slot: Slot) -> Draw:
    sampling = slot.admitted.sampling
    greedy = sampling.temperature == 0.0
    return Draw(sampling, 0.0 if greedy else uniform(slot.admitted.seed, slot.length))


def _adjusted(slot: Slot, logits: Rows) -> Rows:
    history = History(tokens=slot.tokens, prompt_length=slot.admitted.prompt_length, stop_ids=slot.stop_ids)
    return adjusted(logits, slot.admitted.sampling, history)
