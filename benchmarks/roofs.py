"""The machine's roofs: what reading memory and computing in registers reach at most."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernels.cpu import build

_PROGRAM = Path(__file__).with_suffix(".cpp")


@dataclass(frozen=True, slots=True)
class Roofs:
    """Of a number of threads, in thousand million bytes or operations a second; a multiplication and an addition are two."""

    read: float
    int8: float
    bf16: float
    fp32: float


def measure(level: str, thread_counts: list[int]) -> dict[int, Roofs]:
    """Compiles the program for a level of the kernels, and runs it for each number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "roofs"
        command = build.compiler()
        level_flags = build.level_flags(command, f"level_{level}")
        flags = [*build.COMPILE_FLAGS, "-w", *level_flags, f"-I{build.FOLDER}"]
        header = f'-DHEADWAY_SIMD="simd_{level}.h"'
        build.call([*command, *flags, header, str(_PROGRAM), "-o", str(program)])
        return {threads: _run(program, threads) for threads in thread_counts}


def _run(program: Path, threads: int) -> Roofs:
    done = subprocess.run([program, str(threads)], capture_output=True, text=True, check=True)
    values = dict(line.split() for line in done.stdout.splitlines())
    return Roofs(**{name: float(value) for name, value in values.items()})
