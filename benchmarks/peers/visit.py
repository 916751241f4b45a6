"""A visit: one peer is started, asked for its first token, put through the workloads, and ended."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.launch import Launch, Live, NotStarted, last_words, launched
from benchmarks.peers.plan import Stop, Trial, first_token, warm_up
from benchmarks.peers.processes import exit_code, peak_memory_mib
from benchmarks.peers.readings import MEMORY, READY, Reading, Values, is_behind, problem_of, values_of
from services.cli.bench.load import Load
from services.cli.bench.result import Record, Run
from services.cli.bench.workload import Workload

START = "start"
"""What start-up time and memory are filed under, beside the workloads."""
REQUEST_LIMIT_S = 300.0
TRIAL_LIMIT_S = 480.0


@dataclass(slots=True)
class Visit:
    """One peer's turn in a session. `begin` is told what is done next, `take` each reading as soon as there is one."""

    stop: Stop
    launch: Launch
    log: Path
    quick: bool
    begin: Callable[[str], None]
    take: Callable[[Reading], None]
    _start: dict[str, float] = field(default_factory=dict)
    _behind: str = ""
    """Why higher rates are not tried any more."""

    async def run(self, trials: Sequence[Trial]) -> None:
        """Runs the trials; after one that went wrong the peer is started anew, and a peer that does not start is left."""
        left = list(trials)
        try:
            while True:
                await self._run_while_well(left)
                if not left:
                    break
        except NotStarted as error:
            for name in (START, *(trial.name for trial in left)):
                self._take(name, {}, f"not started: {error}")
        else:
            self._take(START, self._start)

    async def _run_while_well(self, left: list[Trial]) -> None:
        """Takes trials from the front of `left` until one goes wrong. Raises `NotStarted`."""
        self.begin("starting")
        async with launched(self.launch, self.log) as live:
            try:
                await _load_well(first_token(), live)
                self._start.setdefault(READY, time.perf_counter() - live.launched_s)
                self.begin("warming up")
                await _load_well(warm_up(quick=self.quick), live)
                while left:
                    well = await self._try(left[0], live)
                    del left[0]
                    if not well:
                        break
            finally:
                self._start[MEMORY] = max(self._start.get(MEMORY, 0.0), peak_memory_mib(live.process.pid))

    async def _try(self, trial: Trial, live: Live) -> bool:
        """Whether the peer may be asked for more without being started anew."""
        if trial.open_for_s and self._behind:
            self._take(trial.name, {}, f"not tried: {self._behind}")
            return True
        self.begin(trial.name)
        try:
            async with asyncio.timeout(TRIAL_LIMIT_S):
                run = await _load(trial.workload(self.stop.round), live)
        except TimeoutError:
            self._take(trial.name, {}, f"not done within {TRIAL_LIMIT_S:g} s")
            self._note_behind(trial)
            return False
        problem = problem_of(run)
        if problem and (code := exit_code(live.process)) is not None:
            problem = f"{problem}; it ended with exit code {code}: {last_words(self.log)}"
        self._take(trial.name, values_of(run), problem)
        if problem or is_behind(run, trial.open_for_s):
            self._note_behind(trial)
        return not problem

    def _note_behind(self, trial: Trial) -> None:
        if trial.open_for_s:
            self._behind = f"it does not keep up with {trial.name}"

    def _take(self, workload: str, values: Values, problem: str = "") -> None:
        self.take(Reading(self.stop.round, self.stop.place, self.stop.peer, workload, values, problem))


async def _load(workload: Workload, live: Live) -> Run:
    return await Load(workload, live.target, timeout_s=REQUEST_LIMIT_S, tell=_tell_nobody).run()


async def _load_well(workload: Workload, live: Live) -> None:
    """Raises `NotStarted` where any of it goes wrong."""
    if problem := problem_of(await _load(workload, live)):
        raise NotStarted(problem)


def _tell_nobody(_: Record) -> None:
    pass
