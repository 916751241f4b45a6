"""`headway serve`: a whole server as separate processes, or one process of it alone."""

from functools import partial

from services.cli.processes import ABOUT, SETTINGS, run_process
from services.cli.serve_settings import ServeSettings
from services.runtime.settings import Loaded, settings_app


def _serve_all(loaded: Loaded[ServeSettings]) -> int:
    from services.cli.whole_server import serve_all  # each of its processes comes this way too, and needs none of it

    return serve_all(loaded)


app = settings_app(ServeSettings, "serve", _serve_all, "Start a server: all its processes, or one of them alone.")
for _process, _kind in SETTINGS.items():
    app.command(settings_app(_kind, _process, partial(run_process, _process), ABOUT[_process]))
