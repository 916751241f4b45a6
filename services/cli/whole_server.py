"""A whole server: its processes are planned, started, watched, and ended together."""

import os
import signal
from pathlib import Path
from typing import Any

from headway.client import HeadwayError

from services.cli import address
from services.cli.children import Child
from services.cli.console import err
from services.cli.facts import Facts, print_facts
from services.cli.health import is_ready
from services.cli.plan import make_plan
from services.cli.processes import check_environment, end_with_supervisor
from services.cli.run_dir import RunDir
from services.cli.serve_settings import ServeSettings
from services.cli.signals import SignalInbox
from services.cli.supervisor import Supervisor
from services.runtime.files import write_whole
from services.runtime.lifecycle import ExitCode
from services.runtime.settings import Loaded

_PROBE_TIMEOUT_S = 0.5


def serve_all(loaded: Loaded[ServeSettings]) -> int:
    """Runs a whole server until a signal ends it; the exit code."""
    end_with_supervisor()
    check_environment({"serve": ServeSettings})
    signal.signal(signal.SIGTERM, _end_now)
    plan = make_plan(loaded.settings)
    reached = address.reachable(plan.listen)

    def when_ready() -> None:
        try:
            print_facts(Facts.of(reached, plan.model, plan.choice()))
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
