"""How rotary frequencies are stretched for long contexts: linear, llama3, YaRN, or divisors given in the file.

YaRN: Peng et al., https://arxiv.org/abs/2309.00071. The rotary embedding itself: Su et al., https://arxiv.org/abs/2104.09864.
"""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """One way of stretching; fields that its kind does not use keep their defaults."""

    kind: Literal["linear", "llama3", "yarn", "divisors"]
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0
    divisors: tuple[float, ...] = ()

    def scaled(self, frequencies: tuple[float, ...], theta: float) -> tuple[float, ...]:
        """The stretched inverse frequencies, from the plain ones."""
        match self.kind:
            case "linear":
                return tuple(frequency / self.factor for frequency in frequencies)
            case "llama3":
                return tuple(self._llama3(frequency) for frequency in frequencies)
            case "yarn":
                return self._yarn(frequencies, theta)
            case "divisors":
                return tuple(f / divisor for f, divisor in zip(frequencies, self.divisors, strict=True))

    def _llama3(self, frequency: float) -> float:
        wavelength = 2 * math.pi / frequency
        if wavelength < self.original_context_length / self.high_freq_factor:
            return frequency
        if wavelength > self.original_context_length / self.low_freq_factor:
            return frequency / self.factor
        smooth = self.original_context_length / wavelength - self.low_freq_factor
        smooth /= self.high_freq_factor - self.low_freq_factor
        return (1 - smooth) * frequency / self.factor + smooth * frequency

    def _yarn(self, frequencies: tuple[float, ...], theta: float) -> tuple[float, ...]:
        half = len(frequencies)

        def dimension_of(rotations: float) -> float:
            ratio = self.original_context_length / (rotations * 2 * math.pi)
            return half * math.log(ratio) / math.log(theta)

        low, high = dimension_of(self.beta_fast), dimension_of(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * half - 1)
        span = high - low or 0.001
        ramps = (min(max((index - low) / span, 0.0), 1.0) for index in range(half))
        return tuple(f / self.factor * ramp + f * (1 - ramp) for f, ramp in zip(frequencies, ramps, strict=True))


def yarn_attention_factor(factor: float, mscale: float = 1.0) -> float:
    """What YaRN multiplies cosines and sines by (the paper's equation 22, times `mscale`)."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0
