"""How long prompts and answers are: a distribution of token counts, written `128`, `uniform:64:256` or `lognormal:80:0.7:16:256`."""

import math
import random
from dataclasses import dataclass
from typing import Literal, Self

from services.runtime.lifecycle import BadSetting

_FORMS = "give a number, uniform:LEAST:MOST, or lognormal:MEDIAN:SIGMA:LEAST:MOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Token counts from `least` to `most`; what a log-normal draws beyond them becomes the nearer of the two.

    `median` and `sigma` are the log-normal's: exp(mean) and standard deviation of the logarithm, before the clipping.
    """

    kind: Literal["fixed", "uniform", "lognormal"]
    least: int
    most: int
    median: float = 0.0
    sigma: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise BadSetting(f"lengths from {self.least} to {self.most} cannot be: at least 1, and the least first")
        if self.kind == "lognormal" and not (0 < self.median < math.inf and 0 <= self.sigma < math.inf):
            raise BadSetting("a log-normal length needs a median above 0 and a sigma of at least 0")

    @classmethod
    def of(cls, text: str) -> Self:
        """Reads the written form. Raises `BadSetting`."""
        kind, *numbers = text.split(":")
        try:
            match kind, numbers:
                case "uniform", [least, most]:
                    return cls(kind="uniform", least=int(least), most=int(most))
                case "lognormal", [median, sigma, least, most]:
                    return cls(
                        kind="lognormal", least=int(least), most=int(most), median=float(median), sigma=float(sigma)
                    )
                case count, []:
                    return cls(kind="fixed", least=int(count), most=int(count))
        except BadSetting:
            raise
        except ValueError:
            pass
        raise BadSetting(f"{text!r} is no length: {_FORMS}")

    def draw(self, rng: random.Random) -> int:
        """One length."""
        if self.kind == "uniform":
            return rng.randint(self.least, self.most)
        if self.kind == "lognormal":
            drawn = self.median * math.exp(self.sigma * rng.normalvariate())
            return min(max(round(drawn), self.least), self.most)
        return self.least

    def __str__(self) -> str:
        if self.kind == "uniform":
            return f"uniform:{self.least}:{self.most}"
        if self.kind == "lognormal":
            return f"lognormal:{self.median:g}:{self.sigma:g}:{self.least}:{self.most}"
        return str(self.least)
