"""The processes of a server: their settings, and how one of them is run."""

import importlib
import os
from typing import Any

from services.executor.settings import ExecutorSettings
from services.router.settings import RouterSettings
from services.runtime.lifecycle import die_with_parent
from services.runtime.settings import SUPERVISOR_PID, Loaded, check_names
from services.scheduler.settings import SchedulerSettings

SETTINGS: dict[str, type[Any]] = {
    "router": RouterSettings,
    "scheduler": SchedulerSettings,
    "executor": ExecutorSettings,
}
ABOUT = {
    "router": "Run a router alone: it speaks to clients, and to the schedulers that it is given.",
    "scheduler": "Run a scheduler alone: it decides what its executor computes.",
    "executor": "Run an executor alone: it computes for its scheduler.",
}


def check_environment(more: dict[str, type[Any]]) -> None:
    """Raises `BadSetting` for a HEADWAY_ variable that is no setting of any process."""
    check_names({**SETTINGS, **more}, os.environ)


def end_with_supervisor() -> None:
    """Where a supervisor started this process: ends with it, however it ends."""
    if supervisor_pid := os.environ.get(SUPERVISOR_PID):
        die_with_parent(int(supervisor_pid))


def run_process(process: str, loaded: Loaded[Any]) -> int:
    """Runs one process until it ends; its exit code."""
    end_with_supervisor()
    check_environment({})
    module = importlib.import_module(f"services.{process}.main")
    return int(module.main(loaded.settings))
