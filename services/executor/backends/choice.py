"""Which back end computes, and in what precision. Imports no back end, and no torch."""

from dataclasses import dataclass
from typing import Literal

from kernels.cpu import library
from services.executor.models.config import DecoderConfig
from services.executor.models.memory import kv_dtype
from services.executor.settings import ExecutorSettings
from services.runtime.lifecycle import BadSetting


@dataclass(frozen=True, slots=True)
class Choice:
    """A back end and the precision of its weights; `missing` says why a better back end is not the choice."""

    backend: Literal["cpu", "reference"]
    dtype: Literal["auto", "float32", "bfloat16"]
    missing: str = ""

    @property
    def kv_dtype(self) -> Literal["float32", "bfloat16"]:
        """The precision of keys and values."""
        return kv_dtype(self.dtype)


def choose(settings: ExecutorSettings, config: DecoderConfig) -> Choice:
    """What the settings ask for; for `auto` the compiled kernels where they are there, else the reference.

    Raises:
        BadSetting: this machine, or this back end, cannot do what is asked for.
    """
    assert settings.backend != "simulated"
    missing = "" if settings.backend == "reference" else library.why_missing() or _unsupported(config)
    if settings.backend == "cpu" and missing:
        raise BadSetting(f"backend: the compiled CPU kernels cannot serve: {missing}")
    if settings.backend != "reference" and not missing:
        return Choice("cpu", settings.dtype)
    if settings.dtype == "bfloat16":
        raise BadSetting("dtype: the reference back end computes in float32 alone")
    return Choice("reference", "float32", missing)


def _unsupported(config: DecoderConfig) -> str:
    """Why the compiled kernels cannot compute a model; empty where they can. See attention_supports in ops.h."""
    if config.head_dim % 16 or config.head_dim > 256:
        return f"the model's heads have {config.head_dim} elements, not a multiple of 16 up to 256"
    return ""
