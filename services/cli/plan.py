"""The plan of a whole server: the settings of its processes, its model and its address, all made sure of."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from services.cli import address
from services.cli.models import model_to_serve
from services.cli.preflight import check_installed, check_written
from services.cli.serve_settings import ServeSettings
from services.executor.settings import ExecutorSettings
from services.executor.weights.inspection import read_config
from services.router.settings import RouterSettings
from services.runtime.listen import check_listen
from services.runtime.settings import Loaded, Origin, load
from services.scheduler.settings import SchedulerSettings

if TYPE_CHECKING:
    from services.executor.backends.choice import Choice


@dataclass(frozen=True, slots=True)
class Plan:
    """What a whole server is started with."""

    serve: ServeSettings
    router: Loaded[RouterSettings]
    scheduler: Loaded[SchedulerSettings]
    executor: Loaded[ExecutorSettings]
    listen: str
    model: Path | None  # None: simulated

    def choice(self) -> "Choice | None":
        """How the model is computed. Raises `BadSetting`."""
        if self.model is None:
            return None
        from services.executor.backends.choice import choose  # brings in numpy: not before it is needed

        return choose(self.executor.settings, read_config(self.model))

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
    plan = Plan(serve, router, scheduler, executor, listen, model)
    if executor.settings.backend != "auto" or executor.settings.dtype != "auto":
        plan.choice()  # what is asked for may not be here; where nothing is, there is always a way
    return plan
