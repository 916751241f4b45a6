"""What a server that has become ready says of itself."""

import math
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headway.client import Client
from headway.v1 import inference_pb2 as v1

from services.cli.console import bytes_in_words, out
from services.executor.weights.inspection import inspect, stored_bytes

if TYPE_CHECKING:
    from services.executor.backends.choice import Choice

SEQUENCE_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What the weights of a model take in memory, and what computes with them."""

    num_bytes: int
    words: str
    kv_bytes_per_token: int

    @classmethod
    def of(cls, path: Path, choice: "Choice") -> Self:
        """Reads the header of the model at `path`."""
        report = inspect(str(path), dtype=choice.kv_dtype)
        if choice.dtype == "auto":
            num_bytes, precision = stored_bytes(path), "as stored"
        else:
            num_bytes, precision = report.weight_bytes_by_dtype[choice.dtype], f"in {choice.dtype}"
        kernels = "compiled kernels" if choice.backend == "cpu" else "reference back end"
        return cls(num_bytes=num_bytes, words=f"{precision}, {kernels}", kv_bytes_per_token=report.kv_bytes_per_token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a server says of itself; a simulated one has no weights."""

    address: str
    model: v1.GetModelResponse
    weights: Weights | None

    @classmethod
    def of(cls, address: str, path: Path | None, choice: "Choice | None") -> Self:
        """Asks the server at `address`, and reads the header of the model at `path`."""
        weights = None if path is None or choice is None else Weights.of(path, choice)
        with Client(address) as client:
            return cls(address=address, model=client.model(timeout_s=10), weights=weights)

    @property
    def num_sequences(self) -> int:
        """Sequences of SEQUENCE_TOKENS that the KV pool holds at once."""
        limits = self.model.limits
        return limits.kv_pool_tokens // (math.ceil(SEQUENCE_TOKENS / limits.block_size) * limits.block_size)

    def lines(self) -> list[tuple[str, str]]:
        """Each fact, after its name."""
        limits = self.model.limits
        pool = f"{limits.kv_pool_tokens:,} tokens, fits {self.num_sequences} sequences of {SEQUENCE_TOKENS:,}"
        if self.weights is None:
            weights = "none: the executor is simulated"
        else:
            weights = f"{bytes_in_words(self.weights.num_bytes)} {self.weights.words}"
            pool = f"{self.weights.kv_bytes_per_token:,} bytes per token; {pool}"
        return [
            ("model", f"{self.model.name}, context of {limits.context_length:,} tokens"),
            ("weights", weights),
            ("KV pool", pool),
            ("gRPC", self.address),
            (
                "try",
                f'{shlex.quote(command())} generate "Why is the sky blue?" --temperature 0 --address {self.address}',
            ),
        ]


def command() -> str:
    """How the user can call `headway` from the current folder."""
    if found := shutil.which("headway"):
        return "headway" if Path(found).parent == Path(sys.executable).parent else sys.argv[0]
    script = Path(sys.executable).parent / "headway"
    relative = os.path.relpath(script)
    return str(script) if relative.startswith("..") else relative


def print_facts(facts: Facts) -> None:
    out.print("ready", style="bold green")
    for name, words in facts.lines():
        out.print(f"  {name:<9}{words}", markup=False, soft_wrap=True)
