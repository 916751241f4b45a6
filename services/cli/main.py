"""`headway`: the command line. Each command lives in a module of its own, imported when it is asked for.

Exit codes: 0 done; 1 it failed, the reason is on standard error; 2 a flag, a setting or a request that cannot be; 70 the
server could not be started or broke; 130 interrupted; 141 nobody reads the output any more; 143 ended by a second SIGTERM.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError

from services.cli.console import Failed, fail
from services.runtime.lifecycle import BadSetting, ExitCode
from services.runtime.settings import reason_of

FAILED = 1
_INSTALL = "make serve, or pip install -e '.[serve]'"
INTERRUPTED = 130
NOT_READ = 141  # as the shell tells of a program that SIGPIPE ended


def _version() -> str:
    from importlib.metadata import version  # for those who ask

    return version("headway-llm")


app = App(
    name="headway",
    help="Serves large language models, and talks to a server that does.",
    version=_version,
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
for _name, _where, _help in (
    ("serve", "serve:app", "Start a server: all its processes, or one of them alone."),
    ("generate", "generate:generate", "Stream the answer to one prompt."),
    ("chat", "chat:chat", "Talk with the model."),
    ("demo", "demo:demo", "Stream eight prompts at once and show the latencies."),
    (
        "demo-batching",
        "demo_batching.command:demo_batching",
        "Show what continuous batching gains over static batching.",
    ),
    ("bench", "bench.command:app", "Measure a server under load, this one or another."),
    ("model", "model:app", "Fetch, add, list, verify and inspect models."),
    ("health", "health:health", "Say whether a server serves; the exit code is for probes."),
    ("replay", "replay:replay", "Run a scheduler's recorded event log again, to see whether it decides the same."),
    ("config", "config:app", "Show the effective settings and where each comes from."),
):
    app.command(f"services.cli.{_where}", name=_name, help=_help)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit code."""
    try:
        return int(app(arguments, exit_on_error=False, print_error=False) or 0)
    except (CycloptsError, BadSetting) as error:
        fail(_words_of(error))
        return ExitCode.BAD_SETTING
    except ImportError as error:
        if (library := _missing_library(error)) is None:
            raise
        fail(f"this command needs {library}, which is not installed; in a clone of Headway: {_INSTALL}")
        return ExitCode.BAD_SETTING
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it once more
        return NOT_READ
    except (Failed, _client().HeadwayError) as error:  # evaluated only here, after an error
        fail(str(error))
        return ExitCode.BAD_SETTING if isinstance(error, _client().InvalidRequest) else FAILED


def _client() -> ModuleType:
    """The client, for the errors that it raises. A server's processes use none, and start sooner without it."""
    return importlib.import_module("headway.client")


def _words_of(error: CycloptsError | BadSetting) -> str:
    if isinstance(error, UnknownCommandError):  # its own words would import every command
        return f"no command is called {' '.join(error.unused_tokens or ())!r}; see: headway --help"
    return reason_of(error) if isinstance(error, CycloptsError) else str(error)


def _missing_library(error: ImportError) -> str | None:
    """The library that the base install does not have; None when the fault is our own."""
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error  # a lazy command's import is wrapped
    if not isinstance(cause, ModuleNotFoundError) or not cause.name:
        return None
    library = cause.name.partition(".")[0]
    return None if library in {"services", "kernels", "headway"} else library


if __name__ == "__main__":
    sys.exit(main())
