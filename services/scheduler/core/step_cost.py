"""The step cost: what a step is predicted to take, as a fixed part, one per token and one per token of context read.

Steps alike in both, to a power of two, are kept as the mean of about their newest eight, and the newest `_MOST_KINDS`
kinds are kept: a thousand decodes do not push out what the last prompts have taught. The three parts are least squares
over those means, in which kinds that were seen of late weigh more. Integers only, so that replays agree.
"""

from dataclasses import dataclass

_WINDOW = 8
_MOST_KINDS = 48
_REFIT_STEPS = 16
_ERROR_WINDOW = 32
_FRESH_STEPS = 64
_FRESH_WEIGHT = 32
_MILLI = 1000
_PICO = 1_000_000
_COLLINEAR = 50
"""Two columns that agree to within a fiftieth of their spread are not told apart."""


@dataclass(slots=True)
class _Kind:
    """The mean of steps that are alike; all in thousandths."""

    count: int = 0
    tokens: int = 0
    context: int = 0
    us: int = 0
    seen: int = 0
    """The number of the newest."""

    def add(self, num_tokens: int, num_context_tokens: int, step_us: int) -> None:
        self.count = min(_WINDOW, self.count + 1)
        self.tokens += (num_tokens * _MILLI - self.tokens) // self.count
        self.context += (num_context_tokens * _MILLI - self.context) // self.count
        self.us += (step_us * _MILLI - self.us) // self.count


class StepCost:
    """Fitted as steps end. Before the first, everything costs nothing."""

    def __init__(self) -> None:
        self.is_fitted = False
        """Whether steps of several sizes have told what a token costs: before, half of a step is taken to be per token."""
        self._kinds: dict[tuple[int, int], _Kind] = {}
        self._fixed_ps = self._token_ps = self._context_ps = 0
        self._num_steps = 0
        self._error_ns = 0

    @property
    def error_us(self) -> int:
        """Mean distance between prediction and measurement, over about the newest 32 steps."""
        return self._error_ns // _MILLI

    def observe(self, num_tokens: int, num_context_tokens: int, step_us: int, *, predicted_us: int) -> None:
        """A step has ended that was predicted to take `predicted_us`; 0: nothing was known."""
        if predicted_us:
            self._error_ns += (abs(step_us - predicted_us) * _MILLI - self._error_ns) // _ERROR_WINDOW
        size = num_tokens.bit_length(), num_context_tokens.bit_length()
        kind = self._kinds.get(size)
        is_new = kind is None
        if kind is None:
            kind = self._kinds[size] = _Kind()
        kind.add(num_tokens, num_context_tokens, step_us)
        self._num_steps = kind.seen = self._num_steps + 1
        if is_new or self._num_steps % _REFIT_STEPS == 0:
            self._fit()

    def predict_us(self, num_tokens: int, num_context_tokens: int) -> int:
        return (self._fixed_ps + num_tokens * self._token_ps + num_context_tokens * self._context_ps) // _PICO

    def tokens_within(self, spare_us: int, start: int, context_each: int = 1) -> int:
        """How many tokens take no longer than `spare_us` in a step that is made anyway; -1: any number.

        Those of a prompt, computed up to `start`, each of which makes the context that is read one longer; or decodes,
        each of which reads `context_each`.
        """
        each_ps = self._token_ps + context_each * self._context_ps
        return max(0, spare_us * _PICO - start * self._context_ps) // each_ps if each_ps else -1

    def _fit(self) -> None:
        kinds = sorted(self._kinds.items(), key=lambda item: item[1].seen)[-_MOST_KINDS:]
        self._kinds = dict(kinds)
        fresh = self._num_steps - _FRESH_STEPS
        sums = _Sums.of([(_FRESH_WEIGHT if kind.seen > fresh else 1, kind) for _, kind in kinds])
        has_sizes = len({size for size, _ in self._kinds}) > 1
        parts = sums.parts() if has_sizes else None
        self.is_fitted = parts is not None
        self._fixed_ps, self._token_ps, self._context_ps = parts or sums.halves()


@dataclass(frozen=True, slots=True)
class _Sums:
    """Weighted sums over the kinds, and their spreads and products about the means, each times the square of the weights."""

    weight: int
    tokens: int
    context: int
    us: int
    tokens_tokens: int
    tokens_context: int
    context_context: int
    tokens_us: int
    context_us: int

    @classmethod
    def of(cls, kinds: list[tuple[int, _Kind]]) -> "_Sums":
        weight = sum(each for each, _ in kinds)
        tokens = sum(each * kind.tokens for each, kind in kinds)
        context = sum(each * kind.context for each, kind in kinds)
        us = sum(each * kind.us for each, kind in kinds)
        return cls(
            weight=weight,
            tokens=tokens,
            context=context,
            us=us,
            tokens_tokens=weight * sum(each * kind.tokens**2 for each, kind in kinds) - tokens**2,
            tokens_context=weight * sum(each * kind.tokens * kind.context for each, kind in kinds) - tokens * context,
            context_context=weight * sum(each * kind.context**2 for each, kind in kinds) - context**2,
            tokens_us=weight * sum(each * kind.tokens * kind.us for each, kind in kinds) - tokens * us,
            context_us=weight * sum(each * kind.context * kind.us for each, kind in kinds) - context * us,
        )

    def parts(self) -> tuple[int, int, int] | None:
        """(fixed, per token, per context token) in picoseconds: the best fit of which no part is below nothing, if any.

        Of two that nearly tell the same the tokens explain what they can.
        """
        nn, cc, nc = self.tokens_tokens, self.context_context, self.tokens_context
        ny, cy, determinant = self.tokens_us, self.context_us, nn * cc - nc * nc
        slopes = [(ny * _PICO // max(1, nn), 0), (0, cy * _PICO // max(1, cc))]
        if _COLLINEAR * determinant > nn * cc:
            both = ((ny * cc - cy * nc) * _PICO // determinant, (cy * nn - ny * nc) * _PICO // determinant)
            slopes.insert(0, both)
        for token_ps, context_ps in slopes:
            rest = self.us * _PICO - token_ps * self.tokens - context_ps * self.context
            if min(token_ps, context_ps, rest) >= 0:
                return rest // (self.weight * _MILLI), token_ps, context_ps
        return None

    def halves(self) -> tuple[int, int, int]:
        """The same where no fit is there: from one size the cost of a token cannot be told from the fixed one: each is taken for a half."""
        half = self.us * _PICO // 2
        return half // (self.weight * _MILLI), half // max(1, self.tokens), 0
