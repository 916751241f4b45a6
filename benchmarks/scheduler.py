"""The scheduler's cost: CPU time of the pure core per step, plan and result, with no sockets and no model."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.core_loop import CoreLoop, Step
from benchmarks.distribution import rows_of
from benchmarks.instant_executor import BLOCK_SIZE
from benchmarks.machine import calibration_us
from benchmarks.report import Row

CONTEXT = 1000
CHURN_PROMPT = 200
CHURN_LIFE = 10  # steps: a tenth of the batch comes and goes in each
CHURN_BUDGET = 8192
IN_SERVICE_S = 0.005
PLAN_BYTES = 120
WARM_UP = 20

STEPS = 2000
PACED_STEPS = 1000  # ten seconds of two thousand would be one of waiting for each second of measuring


@dataclass(frozen=True, slots=True)
class Case:
    """A batch to measure, and the most microseconds that its median step may cost."""

    name: str
    running: int
    goal_us: float | None = None
    pause_s: float = 0.0
    steps: int = STEPS
    clock_ns: Callable[[], int] = time.process_time_ns


DECODES = (
    Case("decode 64", 64),
    Case("decode 256", 256, 100),
    Case("decode 1024", 1024, 250),
    Case("decode 256 at 5 ms", 256, 500, IN_SERVICE_S, PACED_STEPS),
    Case("decode 1024 at 5 ms", 1024, 800, IN_SERVICE_S, PACED_STEPS),
)
CHURNS = (
    Case("churn 10 % of 256", 256, 500),
    Case("churn 10 % of 256 at 5 ms", 256, 1200, IN_SERVICE_S, PACED_STEPS),
)
CROSSING = Case("all 256 cross", 256, 750)


def run() -> list[Row]:
    """All cases, the calibration loop beside each."""
    rows = []
    for case in DECODES:
        steps = decode(case)
        rows += [*cost_rows(case, steps), calibration(case)]
        if not case.pause_s:
            rows += plan_rows(case, steps)
    crossing = [step for step in decode(CROSSING, in_step=True) if step.num_crossings == CROSSING.running]
    rows += [*cost_rows(CROSSING, crossing), calibration(CROSSING), *plan_rows(CROSSING, crossing)]
    for case in CHURNS:
        rows += [*cost_rows(case, churn(case)), calibration(case)]
    return rows


def decode(case: Case, *, in_step: bool = False) -> list[Step]:
    """Decoding alone from a context of 1,000 on. All cross their block boundaries `in_step`, or evenly spread."""
    max_tokens = case.steps + WARM_UP + 2
    final_blocks = -(-(CONTEXT + BLOCK_SIZE + max_tokens) // BLOCK_SIZE)
    loop = CoreLoop(
        max_slots=case.running,
        num_blocks=case.running * final_blocks,
        token_budget=case.running * (CONTEXT + BLOCK_SIZE),  # all prompts in one step: lengths stay as given
        pause_s=case.pause_s,
        clock_ns=case.clock_ns,
    )
    lengths = [CONTEXT + (0 if in_step else number % BLOCK_SIZE) for number in range(case.running)]
    loop.step([loop.request(length, max_tokens) for length in lengths])
    for _ in range(WARM_UP):
        loop.step()
    gc.collect()
    steps = [loop.step() for _ in range(case.steps)]
    assert all(step.record.decode_tokens == case.running for step in steps), "not all have decoded"
    loop.check()
    return steps


def churn(case: Case) -> list[Step]:
    """In each step a tenth of the batch arrives, and as many finish; the pool is full of cached blocks."""
    blocks = -(-(CHURN_PROMPT + CHURN_LIFE) // BLOCK_SIZE)
    loop = CoreLoop(
        max_slots=case.running,
        num_blocks=case.running * blocks * 2,
        token_budget=CHURN_BUDGET,
        pause_s=case.pause_s,
        clock_ns=case.clock_ns,
    )
    arrived = 0

    def one_step() -> Step:
        nonlocal arrived
        due = arrived % CHURN_LIFE
        arrived += 1
        count = case.running * (due + 1) // CHURN_LIFE - case.running * due // CHURN_LIFE
        return loop.step([loop.request(CHURN_PROMPT, CHURN_LIFE) for _ in range(count)])

    for _ in range(WARM_UP * CHURN_LIFE):
        one_step()
    gc.collect()
    steps = [one_step() for _ in range(case.steps)]
    assert all(step.record.running == case.running for step in steps), "the batch was not full"
    loop.check()
    return steps


def cost_rows(case: Case, steps: list[Step]) -> list[Row]:
    return rows_of(f"{case.name}: step CPU", [step.cost_us for step in steps], "us", case.goal_us)


def plan_rows(case: Case, steps: list[Step]) -> list[Row]:
    fixed = max(step.fixed_bytes for step in steps)
    return [Row(f"{case.name}: plan less 8 a crossing, max", fixed, "bytes", PLAN_BYTES)]


def calibration(case: Case) -> Row:
    return Row(f"{case.name}: calibration loop", calibration_us(), "us")
