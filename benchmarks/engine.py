"""The engine's speed: the default model on this machine, driven by plans made here, with no scheduler."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.report import Row
from services.executor.settings import ExecutorSettings
from services.executor.weights.default_model import ensure_default_model
from services.wire.execution import AdmittedSlot, Capacity, Reset, Sampling, StepPlan, StepResult
from services.wire.message import int32_column

BATCHES = (1, 16, 64)
CHUNK = 256
PROMPT = 4 * CHUNK
SHARED = CHUNK  # tokens of the prompt that each decoding slot begins with, computed once
BLOCK_SIZE = 16
MOST_STEPS = 24
FEWEST_STEPS = 3
BATCH_LIMIT_S = 5.0  # of decoding, for each batch
OWN_BLOCKS = 4  # of a decoding slot, behind the shared ones

ENDLESS = Sampling(temperature=0.0, ignore_eos=True)

ClockNs = Callable[[], int]


class Engine(Protocol):
    """What is measured."""

    def reset(self, session: int, reset: Reset) -> Capacity: ...

    def step(self, plan: StepPlan) -> StepResult: ...


def run() -> list[Row]:
    """Measures the default model on the back end that serves it."""
    return measure(build())


def build(backend: Literal["auto", "cpu", "reference"] = "auto", threads: int = 0) -> "Engine":
    """The default model (fetched where it is not there), with room for this benchmark; 0 threads: as many as CPUs."""
    from services.executor.loading import build_engine

    num_blocks = PROMPT // BLOCK_SIZE + max(BATCHES) * OWN_BLOCKS
    settings = ExecutorSettings(
        model=str(ensure_default_model()),
        backend=backend,
        threads=threads,
        kv_pool_tokens=num_blocks * BLOCK_SIZE,
        max_slots=max(BATCHES) + 1,
    )
    return build_engine(settings)


def measure(
    engine: Engine, wall_ns: ClockNs = time.perf_counter_ns, cpu_ns: ClockNs = time.process_time_ns
) -> list[Row]:
    """Prefill alone, then decoding in batches."""
    bench = EngineBench(engine, wall_ns, cpu_ns)
    rate = PROMPT / bench.prefill() * 1e9
    rows = [Row(f"prefill of {PROMPT} tokens in chunks of {CHUNK}", rate, "tokens/s")]
    for batch in BATCHES:
        walls, cpus = bench.decode(batch)
        what = f"decode batch {batch} at context {SHARED}"
        rows += [
            Row(f"{what}: steps", len(walls), "steps"),
            Row(f"{what}: step wall, median", median(walls) / 1e6, "ms"),
            Row(f"{what}: step CPU, median", median(cpus) / 1e6, "ms"),
            Row(f"{what}: rate", batch * 1e9 / median(walls), "tokens/s"),
        ]
    return rows


class EngineBench:
    """One session of an engine: a prompt that is computed once, and slots that begin with its first blocks."""

    def __init__(self, engine: Engine, wall_ns: ClockNs, cpu_ns: ClockNs) -> None:
        self._engine = engine
        self._wall_ns = wall_ns
        self._cpu_ns = cpu_ns
        self._num_plans = 0
        self._prompt = np.random.default_rng(0).integers(1000, 20_000, PROMPT)
        engine.reset(1, Reset(max_slots=max(BATCHES) + 1, max_step_tokens=PROMPT))

    def prefill(self) -> int:
        """Nanoseconds for the whole prompt."""
        slot = self._admission(0, self._prompt, computed=0, blocks=range(PROMPT // BLOCK_SIZE))
        began_ns = self._wall_ns()
        for start in range(0, PROMPT, CHUNK):
            self._step(*([] if start else [slot]), chunk_slots=[0], chunk_counts=[CHUNK])
        return self._wall_ns() - began_ns

    def decode(self, batch: int) -> tuple[list[int], list[int]]:
        """Wall and CPU nanoseconds of each step in which `batch` slots decode."""
        slots = list(range(1, batch + 1))
        self._step(*(self._decoder(slot) for slot in slots), chunk_slots=slots, chunk_counts=[1] * batch)
        self._step(started=slots)
        walls: list[int] = []
        cpus: list[int] = []
        while len(walls) < FEWEST_STEPS or (len(walls) < MOST_STEPS and sum(walls) < BATCH_LIMIT_S * 1e9):
            wall_ns, cpu_ns = self._wall_ns(), self._cpu_ns()
            result = self._step()
            walls.append(self._wall_ns() - wall_ns)
            cpus.append(self._cpu_ns() - cpu_ns)
            assert len(result.tokens) == batch, "a slot did not decode"
        self._step(released=slots)
        return walls, cpus

    def _decoder(self, slot: int) -> AdmittedSlot:
        """Has all but one token of its prompt computed."""
        own = PROMPT // BLOCK_SIZE + (slot - 1) * OWN_BLOCKS
        blocks = [*range(SHARED // BLOCK_SIZE), *range(own, own + OWN_BLOCKS)]
        return self._admission(slot, np.append(self._prompt[:SHARED], slot), computed=SHARED, blocks=blocks)

    def _admission(
        self, slot: int, tokens: npt.NDArray[np.int64], *, computed: int, blocks: Sequence[int]
    ) -> AdmittedSlot:
        return AdmittedSlot(
            slot=slot,
            token_ids=int32_column(tokens),
            prompt_length=len(tokens),
            computed_length=computed,
            token_limit=len(blocks) * BLOCK_SIZE + 1,
            blocks=int32_column(blocks),
            sampling=ENDLESS,
        )

    def _step(self, *admitted: AdmittedSlot, **columns: list[int]) -> StepResult:
        self._num_plans += 1
        changes = {name: int32_column(values) for name, values in columns.items()}
        return self._engine.step(StepPlan(plan=self._num_plans, admitted=admitted, **changes))  # type: ignore[arg-type]
