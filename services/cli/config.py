"""`headway config`: the effective settings of each process, and where each of them comes from."""

import dataclasses
from functools import partial
from typing import Any

from cyclopts import App
from rich.table import Table

from services.cli.console import out, stream_text
from services.cli.preflight import check_files
from services.cli.processes import SETTINGS, check_environment
from services.cli.serve_settings import ServeSettings
from services.cli.settings_page import page, value_in_words
from services.runtime.settings import Loaded, Origin, load, settings_app, variable

ALL: dict[str, type[Any]] = {**SETTINGS, "serve": ServeSettings}

app = App(name="config", help="Show the effective settings and where each comes from.", result_action="return_value")


@app.default
def config(*, check: bool = False, markdown: bool = False) -> None:
    """Show the effective settings and where each comes from; exit code 2 when one cannot be.

    Args:
        check: Show nothing, only check, and open the files that are named.
        markdown: Print the page of all settings, their defaults and meanings.
    """
    if markdown:
        stream_text(page(ALL))
        return
    check_environment({"serve": ServeSettings})
    every = {process: load(kind, process) for process, kind in ALL.items()}
    if check:
        check_files(**{process: loaded.settings for process, loaded in every.items()})
    else:
        for process, loaded in every.items():
            show(process, loaded)


def show(process: str, loaded: Loaded[Any]) -> None:
    """Prints the settings of one process; none is a secret, those lie in files."""
    table = Table("setting", "value", "origin", title=process, title_justify="left", box=None, pad_edge=False)
    for field in dataclasses.fields(loaded.settings):
        value, origin = getattr(loaded.settings, field.name), loaded.origins.get(field.name, Origin.DEFAULT)
        where = f"{origin} {variable(process, field.name)}" if origin is Origin.ENVIRONMENT else str(origin)
        table.add_row(field.name, value_in_words(value), where, style=None if origin is not Origin.DEFAULT else "dim")
    out.print(table, "")


for _process, _kind in ALL.items():
    app.command(settings_app(_kind, _process, partial(show, _process), f"Show those of {_process} alone."))
