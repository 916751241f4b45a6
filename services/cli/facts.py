"""What a server that has become ready says of itself."""

import math
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from headway.client import Client
from headway.v1 import inference_pb2 as v1

from services.cli.console import bytes_in_words, out
from services.executor.weights.inspection import inspect

SEQUENCE_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Numbers about a server; None where a simulated one has none."""

    address: str
    model: v1.GetModelResponse
    dtype: str
    weight_bytes: int | None
    kv_bytes_per_token: int | None

    @classmethod
    def of(cls, address: str, path: Path | None, dtype: str) -> Self:
        """Asks the server at `address`, and reads the header of the model at `path`."""
        with Client(address) as client:
            model = client.model(timeout_s=10)
        report = None if path is None else inspect(str(path), dtype=dtype)
        return cls(
            address=address,
            model=model,
            dtype=dtype,
            weight_bytes=None if report is None else report.weight_bytes_by_dtype[dtype],
            kv_bytes_per_token=None if report is None else report.kv_bytes_per_token,
        )

    @property
    def num_sequences(self) -> int:
        """Sequences of SEQUENCE_TOKENS that the KV pool holds at once."""
        limits = self.model.limits
        return limits.kv_pool_tokens // (math.ceil(SEQUENCE_TOKENS / limits.block_size) * limits.block_size)

    def lines(self) -> list[tuple[str, str]]:
        """Each fact, after its name."""
        limits = self.model.limits
        pool = f"{limits.kv_pool_tokens:,} tokens, fits {self.num_sequences} sequences of {SEQUENCE_TOKENS:,}"
        if self.weight_bytes is None or self.kv_bytes_per_token is None:
            weights = "none: the executor is simulated"
        else:
            weights = f"{bytes_in_words(self.weight_bytes)} in {self.dtype}"
            pool = f"{self.kv_bytes_per_token:,} bytes per token; {pool}"
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
