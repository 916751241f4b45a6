"""docs/settings.md: every setting of every process, made from the code by `headway config --markdown`."""

import dataclasses
from typing import Any

from services.runtime.settings import Loaded, Origin, settings_app, variable

_HEAD = """# Settings

Made by `headway config --markdown`; a test holds this page against the code.

A setting is a flag of `headway serve PROCESS` (`max_live_requests` is `--max-live-requests`), else an environment
variable (`HEADWAY_ROUTER_MAX_LIVE_REQUESTS`), else its default. `headway config` shows the values in effect and where
each comes from; `headway config --check` only checks them. An unknown flag, an unknown `HEADWAY_` variable or a value
that cannot be ends with exit code 2 and the reason.

A whole server (`headway serve`) has settings of its own, below under *serve*, and its processes read theirs from the
environment. In a setting with several values, the environment separates them by commas or spaces; the flag is repeated.
There an empty variable counts as unset; elsewhere it is the empty text, and refused where the setting is no text.

`HEADWAY_CPU_LEVEL` is no setting of a process: it forces the instruction set of the compiled CPU kernels (`avx512`, `avx2`
or `portable`) where the best that the machine has is not wanted.

The files that `curve_key_file` and `salt_secret_file` name are made as [SECURITY.md](../SECURITY.md#keys) says.
"""


def page(kinds: dict[str, type[Any]]) -> str:
    """The page, for the settings classes by process."""
    return "\n".join([_HEAD, *(section(process, kind) for process, kind in kinds.items())])


def section(process: str, kind: type[Any]) -> str:
    """One process's table."""
    rows = [f"## {process}", "", "| setting | default | environment | meaning |", "|---|---|---|---|"]
    meanings = _meanings(process, kind)
    for field in dataclasses.fields(kind):
        default = "" if field.default in ("", None, dataclasses.MISSING) else f"`{value_in_words(field.default)}`"
        rows.append(f"| `{field.name}` | {default} | `{variable(process, field.name)}` | {meanings[field.name]} |")
    return "\n".join([*rows, ""])


def value_in_words(value: Any) -> str:
    """A value as it is written in the environment."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _meanings(process: str, kind: type[Any]) -> dict[str, str]:
    """What each field means, as `--help` tells it."""

    def nothing(_loaded: Loaded[Any]) -> Origin:
        return Origin.DEFAULT

    arguments = settings_app(kind, process, nothing, "").assemble_argument_collection(parse_docstring=True)
    return {argument.field_info.name: " ".join((argument.parameter.help or "").split()) for argument in arguments}
