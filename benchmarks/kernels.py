"""Packed linears in the shapes of SmolLM2-135M, every kind at 1 to 256 rows, and its attention, beside their roofs."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from benchmarks.kernels_attention import attention_rows
from benchmarks.kernels_cost import Cost, best_seconds
from benchmarks.report import Row
from benchmarks.roofs import Roofs, measure
from kernels.cpu.library import KINDS, CpuLibrary, Linear, load
from services.executor.threads import usable_cpus

ROWS = (1, 16, 64, 256)
LAYER = ((576, 960), (576, 576), (576, 3072), (1536, 576))
"""Inputs and outputs of a layer's linears: qkv, output, gate and up, down."""
HEAD = (576, 49152)
K_QUANT_INPUTS = {576: 512, 1536: 1536}
"""K-quants have inputs by 256: the model's own files give its linears other kinds."""
WEIGHT_BYTES = 200e6
"""Of all layers, about: far more than any cache holds, so that one row reads memory."""
MOST_TIMES = {1: 1 / 0.80, 64: 1 / 0.65, 256: 1 / 0.65}
"""By rows: how much longer than the binding roof's time a pass may take."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Pass:
    """Every linear once, as a step does."""

    layers: list[Linear]
    head: Linear

    @property
    def linears(self) -> list[Linear]:
        return [*self.layers, self.head]

    @property
    def weights(self) -> int:
        return sum(linear.inputs * linear.outputs for linear in self.linears)

    @property
    def num_bytes(self) -> int:
        return sum(linear.packed_bytes for linear in self.linears)

    def seconds(self, rows: int, clock_s: Clock) -> float:
        """The best of a few rounds."""
        random = np.random.default_rng(0)
        inputs = {linear.inputs for linear in self.linears}
        x = {width: random.standard_normal((rows, width)).astype(np.float32) for width in inputs}
        out = {linear.outputs: np.empty((rows, linear.outputs), np.float32) for linear in self.linears}
        calls = [linear.bound(x[linear.inputs], out[linear.outputs]) for linear in self.linears]
        return best_seconds(calls, clock_s)


def run() -> list[Row]:
    library = load()
    thread_counts = sorted({1, usable_cpus()})
    roofs = measure(library.level, thread_counts)
    return [*roof_rows(roofs), *kernel_rows(library, KINDS, roofs), *attention_rows(library.level, roofs[1])]


def roof_rows(roofs: dict[int, Roofs]) -> Iterator[Row]:
    for threads, roof in roofs.items():
        yield Row(f"roof, {threads} threads: memory read", roof.read, "GB/s")
        for name in ("int8", "bf16", "fp32"):
            yield Row(f"roof, {threads} threads: {name}", getattr(roof, name), "GOP/s")


def kernel_rows(
    library: CpuLibrary, kinds: Iterable[str], roofs: dict[int, Roofs], clock_s: Clock = time.perf_counter
) -> Iterator[Row]:
    """Speed and share of the roof, of each kind, number of threads and number of rows."""
    for kind in kinds:
        linears = _pass_of(library, kind)
        for threads, roof in roofs.items():
            library.set_threads(threads)
            for rows in ROWS:
                seconds = linears.seconds(rows, clock_s)
                cost = Cost(1e-9 * linears.num_bytes, 2e-9 * rows * linears.weights, kind)
                what = f"{kind}, {rows} rows, {threads} threads"
                yield from cost.rows(what, seconds, roof, "GB/s" if rows == 1 else "GOP/s", MOST_TIMES.get(rows))


def _pass_of(library: CpuLibrary, kind: str) -> Pass:
    """As many layers as make up `WEIGHT_BYTES`, at most the model's thirty, and the head."""
    k_quant = kind in ("Q4_K", "Q6_K")
    layers: list[Linear] = []
    while sum(linear.packed_bytes for linear in layers) < WEIGHT_BYTES and len(layers) < 30 * len(LAYER):
        layers += [_linear(library, kind, *shape, k_quant) for shape in LAYER]
    return Pass(layers, _linear(library, kind, *HEAD, k_quant))


def _linear(library: CpuLibrary, kind: str, inputs: int, outputs: int, k_quant: bool) -> Linear:
    inputs = K_QUANT_INPUTS[inputs] if k_quant else inputs
    linear = library.linear(inputs)
    linear.add_segment(kind, outputs, random_tensor(kind, inputs, outputs))
    return linear


def random_tensor(kind: str, inputs: int, outputs: int) -> npt.NDArray[np.generic]:
    """A tensor whose numbers are finite, as its bytes."""
    random = np.random.default_rng([inputs, outputs])
    if kind not in ("F32", "F16", "BF16"):
        width, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
        no_full_exponent = np.uint8(0xBF)
        return random.integers(0, 256, (outputs, inputs // width * size), np.uint8) & no_full_exponent
    values = random.standard_normal((outputs, inputs), np.float32)
    if kind == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(np.float16) if kind == "F16" else values
