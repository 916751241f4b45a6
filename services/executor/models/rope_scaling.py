"""How rotary frequencies are stretched for long contexts: linear, llama3, YaRN, or divisors given in the file.

YaRN: Peng et al., https://arxiv.org/abs/2309.00071. The rotary embedding itself: Su et al., https://arxiv.org/abs/2104.09864.
"""

import math
from dataclasses import dataclass
from typing import Literal

from services.executor.weights.errors import UnsupportedModel
from services.executor.weights.fields import Fields

MAX_CONTEXT_LENGTH = 1 << 24
SUPPORTED_KINDS = "default, linear, llama3, yarn"


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


def from_hf(fields: Fields, context_length: int) -> RopeScaling | None:
    """Reads `rope_scaling`, or the `rope_parameters` that newer files have in its place; None means plain rotation."""
    kind = fields.text("rope_type", fields.text("type", "default"))
    factor = fields.number("factor", 1.0, 1e6) if kind in ("linear", "llama3", "yarn") else 1.0
    if fields.number("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0:
        raise UnsupportedModel("config.json: partial_rotary_factor is set; Headway rotates whole heads only")
    match kind:
        case "default":
            return None
        case "linear":
            return RopeScaling(kind="linear", factor=factor)
        case "llama3":
            low = fields.number("low_freq_factor", 1e-3, 1e6)
            return RopeScaling(
                kind="llama3",
                factor=factor,
                low_freq_factor=low,
                high_freq_factor=fields.number("high_freq_factor", low * 1.0001, 1e6),
                original_context_length=fields.integer("original_max_position_embeddings", 1, MAX_CONTEXT_LENGTH),
            )
        case "yarn":
            return _yarn_from_hf(fields, factor, context_length)
    raise UnsupportedModel(f"config.json: rope type {kind[:40]!r} is not supported; supported: {SUPPORTED_KINDS}")


def _yarn_from_hf(fields: Fields, factor: float, context_length: int) -> RopeScaling:
    mscale, mscale_all = fields.number("mscale", 0.0, 1e3, 0.0), fields.number("mscale_all_dim", 0.0, 1e3, 0.0)
    attention_factor = yarn_attention_factor(factor)
    if mscale and mscale_all:
        attention_factor = yarn_attention_factor(factor, mscale) / yarn_attention_factor(factor, mscale_all)
    beta_slow = fields.number("beta_slow", 1e-3, 1e6, 1.0)
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_context_length=fields.integer(
            "original_max_position_embeddings", 1, MAX_CONTEXT_LENGTH, context_length
        ),
        beta_fast=fields.number("beta_fast", beta_slow, 1e6, 32.0),
        beta_slow=beta_slow,
        truncate=fields.flag("truncate", True),
        attention_factor=fields.number("attention_factor", 1e-3, 1e3, attention_factor),
    )


def from_gguf(fields: Fields, divisors: tuple[float, ...], context_length: int) -> RopeScaling | None:
    """Reads `<architecture>.rope.scaling.*`; `divisors` is the file's rope_freqs tensor (how llama3 is stored)."""
    kind = fields.text("rope.scaling.type", "none")
    factor = fields.number("rope.scaling.factor", 0.0, 1e6, fields.number("rope.scale_linear", 0.0, 1e6, 1.0)) or 1.0
    if divisors:
        if kind not in ("none", "llama3") and factor != 1.0:
            raise UnsupportedModel(f"GGUF: rope_freqs together with {kind[:40]!r} scaling is not supported")
        return RopeScaling(kind="divisors", divisors=divisors)
    if kind not in ("none", "linear", "yarn"):
        raise UnsupportedModel(f"GGUF: rope scaling {kind[:40]!r} is not supported; supported: none, linear, yarn")
    if kind == "none" or factor == 1.0:
        return None
    if kind == "linear":
        return RopeScaling(kind="linear", factor=factor)
    if fields.number("rope.scaling.yarn_log_multiplier", -1e6, 1e6, 0.0) != 0.0:
        raise UnsupportedModel("GGUF: rope.scaling.yarn_log_multiplier is not supported")
    own = fields.number("rope.scaling.attn_factor", 1e-3, 1e3, 1.0)
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_context_length=fields.integer(
            "rope.scaling.original_context_length", 1, MAX_CONTEXT_LENGTH, context_length
        ),
        attention_factor=own * yarn_attention_factor(factor),
    )


def yarn_attention_factor(factor: float, mscale: float = 1.0) -> float:
    """What YaRN multiplies cosines and sines by (the paper's equation 22, times `mscale`)."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0
