"""`headway serve`: a whole server as separate processes, or one process of it alone."""

import dataclasses
import os
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.client import HeadwayError

from services.cli import address
from services.cli.children import Child
from services.cli.console import err
from services.cli.facts import Facts, print_facts
from services.cli.health import is_ready
from services.cli.models import model_to_serve
from services.cli.preflight import check_installed, check_written
from services.cli.processes import ABOUT, SETTINGS, check_environment, end_with_supervisor, run_process
from services.cli.run_dir import RunDir
from services.cli.serve_settings import ServeSettings
from services.cli.signals import SignalInbox
from services.cli.supervisor import Supervisor
from services.executor.settings import ExecutorSettings
from services.executor.weights.inspection import read_config
from services.router.settings import RouterSettings
from services.runtime.files import write_whole
from services.runtime.lifecycle import ExitCode
from services.runtime.listen import check_listen
from services.runtime.settings import Loaded, Origin, load, settings_app
from services.scheduler.settings import SchedulerSettings

if TYPE_CHECKING:
    from services.executor.backends.choice import Choice

_PROBE_TIMEOUT_S = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What a whole server is started with."""

    serve: ServeSettings
    router: Loaded[RouterSettings]
    scheduler: Loaded[SchedulerSettings]
    executor: Loaded[ExecutorSettings]
    listen: str
    model: Path | None  # None: simulated
    choice: "Choice | None"  # how it is computed

    def flags(self, run_dir: Path) -> dict[str, list[str]]:
        """The flags of each process, in the order in which they are to end; the rest of their settings is theirs."""
        scheduler, executor = f"unix:{run_dir}/scheduler.sock", f"ipc://{run_dir}/executor.sock"
        flags = {
            "router": ["--listen", self.listen, "--schedulers", scheduler],
            "scheduler": ["--listen", scheduler, "--executor-endpoint", executor],
            "executor": ["--scheduler-endpoint", executor],
        }
        if self.serve.allow_public:
            flags["router"].append("--allow-public")
        if self.model is None:
            flags["executor"] += ["--backend", "simulated"]
        else:
            flags["executor"] += ["--model", str(self.model)]
        if self.serve.kv_memory_mb is not None:
            flags["executor"] += ["--kv-memory-mb", str(self.serve.kv_memory_mb)]
        if self.serve.batching is not None:
            flags["scheduler"] += ["--batching", self.serve.batching]
        for process, loaded in (("router", self.router), ("scheduler", self.scheduler), ("executor", self.executor)):
            if loaded.origins["log_level"] is Origin.DEFAULT:
                flags[process] += ["--log-level", self.serve.log_level]
        return flags


def make_plan(serve: ServeSettings) -> Plan:
    """Reads the settings of all processes, and makes sure of the model and of the address. Raises `BadSetting`."""
    public = ["--allow-public"] if serve.allow_public else []
    router = load(RouterSettings, "router", public)
    executor = load(ExecutorSettings, "executor")
    scheduler = load(SchedulerSettings, "scheduler")
    listen = address.with_port(serve.listen or router.settings.listen, serve.port)
    check_listen(listen, allow_public=router.settings.allow_public)
    check_written("ready_file", serve.ready_file)
    listen = address.free(listen)
    fake = serve.fake or executor.settings.backend == "simulated"
    check_installed(fake=fake)
    model = None if fake else model_to_serve(serve.model or executor.settings.model)
    choice = None if model is None else _choice(model, executor.settings)
    return Plan(serve, router, scheduler, executor, listen, model, choice)


def _choice(model: Path, settings: ExecutorSettings) -> "Choice":
    from services.executor.backends.choice import choose  # needs more than the base install has

    return choose(settings, read_config(model))


def serve_all(loaded: Loaded[ServeSettings]) -> int:
    """Runs a whole server until a signal ends it; the exit code."""
    end_with_supervisor()
    check_environment({"serve": ServeSettings})
    signal.signal(signal.SIGTERM, _end_now)
    plan = make_plan(loaded.settings)
    reached = address.reachable(plan.listen)

    def when_ready() -> None:
        try:
            print_facts(Facts.of(reached, plan.model, plan.choice))
        except HeadwayError as error:  # it has just become ready, and something of it is gone again
            report(f"ready on {reached}, but it does not say what it serves: {error}")
        if plan.serve.ready_file:
            write_whole(Path(plan.serve.ready_file), reached)

    with RunDir() as run_dir, SignalInbox(signal.SIGTERM, signal.SIGINT, signal.SIGCHLD) as inbox:
        children = [Child(name, flags, os.environ) for name, flags in plan.flags(run_dir.path).items()]
        report(f"starting {'a simulated server' if plan.model is None else plan.model.name} on {plan.listen}")
        supervisor = Supervisor(
            children,
            ready=lambda: is_ready(reached, _PROBE_TIMEOUT_S),
            report=report,
        )
        return supervisor.run(inbox, when_ready)


def report(words: str) -> None:
    """Says what happens to the server."""
    err.print(f"headway: {words}", markup=False, soft_wrap=True)


def _end_now(_number: int, _frame: Any) -> None:
    """Nothing serves yet: what was begun is cleaned up on the way out."""
    raise SystemExit(ExitCode.FORCED)


app = settings_app(ServeSettings, "serve", serve_all, "Start a server: all its processes, or one of them alone.")
for _process, _kind in SETTINGS.items():
    app.command(settings_app(_kind, _process, partial(run_process, _process), ABOUT[_process]))
