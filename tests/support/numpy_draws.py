"""The part of a back end that chooses tokens, in numpy: for tests that have logits and no model."""

from services.executor.backends.best import best_ids
from services.executor.backends.drawn import drawn_ids


class NumpyDraws:
    """`best` and `draw` of a `Backend`."""

    best = staticmethod(best_ids)
    draw = staticmethod(drawn_ids)
