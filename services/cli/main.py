"""`headway`: the command line. Each command lives in a module of its own, imported when it is asked for.

Exit codes: 0 done; 1 it failed, the reason is on standard error; 2 a flag or setting that cannot be; 70 the server could
not be started or broke; 130 interrupted; 143 ended by a second SIGTERM.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, CycloptsError, Parameter
from headway.client import HeadwayError

from services.cli.console import Failed, fail
from services.runtime.lifecycle import BadSetting, ExitCode
from services.runtime.settings import reason_of

FAILED = 1
INTERRUPTED = 130

app = App(
    name="headway",
    help="Serves large language models, and talks to a server that does.",
    version=lambda: version("headway-llm"),
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
for _name, _where, _help in (
    ("serve", "serve:app", "Start a server: all its processes, or one of them alone."),
    ("generate", "generate:generate", "Stream the answer to one prompt."),
    ("chat", "chat:chat", "Talk with the model."),
    ("demo", "demo:demo", "Stream eight prompts at once and show the latencies."),
    ("model", "model:app", "Fetch, add, list, verify and inspect models."),
    ("health", "health:health", "Say whether a server serves; the exit code is for probes."),
    ("config", "config:app", "Show the effective settings and where each comes from."),
):
    app.command(f"services.cli.{_where}", name=_name, help=_help)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit code."""
    try:
        return int(app(arguments, exit_on_error=False, print_error=False) or 0)
    except CycloptsError as error:
        fail(reason_of(error))
        return ExitCode.BAD_SETTING
    except BadSetting as error:
        fail(str(error))
        return ExitCode.BAD_SETTING
    except (HeadwayError, Failed) as error:
        fail(str(error))
        return FAILED
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"services", "kernels", "headway"}:
            raise
        fail(f"this command needs {error.name}, which is not installed: pip install 'headway-llm[serve]'")
        return ExitCode.BAD_SETTING
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
