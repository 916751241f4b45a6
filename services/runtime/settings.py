"""Settings of a process: one frozen dataclass, filled from flags, else the environment, else defaults.

A field `max_live_requests` of the router is the flag `--max-live-requests` and the environment variable
`HEADWAY_ROUTER_MAX_LIVE_REQUESTS`. A column of values is separated by commas or spaces in the environment, and given by
repeating the flag.
"""

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar

from cyclopts import App, ArgumentCollection, CycloptsError, Parameter, UnusedCliTokensError
from cyclopts.config import Env

from services.runtime.lifecycle import BadSetting

T = TypeVar("T")

PREFIX = "HEADWAY_"
TEST_HOOKS = "HEADWAY_TEST_HOOKS"
SUPERVISOR_PID = "HEADWAY_SUPERVISOR_PID"
CPU_LEVEL = "HEADWAY_CPU_LEVEL"  # kernels/cpu reads it
_OURS = frozenset({TEST_HOOKS, SUPERVISOR_PID, CPU_LEVEL})
# What Kubernetes and Docker links put into the environment for a service called headway-something.
_SERVICE_LINK = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$")


class Origin(StrEnum):
    """Where a value came from."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """Settings, and where each of their fields came from."""

    settings: T
    origins: Mapping[str, Origin]


def variable(process: str, field: str) -> str:
    """The environment variable of a field."""
    return f"{PREFIX}{process.upper()}_{field.upper()}"


def settings_app(kind: type[T], process: str, run: Callable[[Loaded[T]], Any], about: str) -> App:
    """A command whose flags are the fields of `kind`; it calls `run` with what was loaded."""
    origins: dict[str, Origin] = {}

    def note_origins(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        for argument in arguments:
            if (name := argument.field_info.name) in names:
                origins[name] = _origin(token.source for token in argument.tokens)

    app = App(
        name=process,
        help=about,
        version_flags=(),
        config=[Env(variable(process, ""), command=False), note_origins],
        default_parameter=Parameter(env_var_split=_split, negative_bool="no-", negative_iterable=()),
        result_action="return_value",
    )

    def command(settings: Any = None) -> Any:
        return run(Loaded(kind() if settings is None else settings, dict(origins)))

    # The class is known only now, so the annotation is set by hand.
    command.__annotations__["settings"] = Annotated[kind, Parameter(name="*")]
    app.default(command)
    return app


def load(kind: type[T], process: str, flags: Sequence[str] = ()) -> Loaded[T]:
    """Settings of a process from flags and the environment. Raises `BadSetting`."""

    def keep(loaded: Loaded[T]) -> Loaded[T]:
        return loaded

    app = settings_app(kind, process, keep, "")
    try:
        loaded: Loaded[T] = app(flags, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise BadSetting(f"{process}: {reason_of(error)}") from None
    except BadSetting as error:
        raise BadSetting(f"{process}: {error}") from None
    return loaded


def reason_of(error: CycloptsError) -> str:
    """The library's words for a bad flag or value, in one line."""
    if isinstance(error, UnusedCliTokensError):
        return f"{' '.join(error.unused_tokens or ())!r} is more than this command takes; see --help"
    return " ".join(str(error).split())


def check_names(kinds: Mapping[str, type], environment: Iterable[str]) -> None:
    """Raises `BadSetting` for a HEADWAY_ variable that is no setting of any process: a misspelt one is not ignored."""
    known = {variable(process, field.name) for process, kind in kinds.items() for field in dataclasses.fields(kind)}
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in known or name in _OURS or _SERVICE_LINK.search(name):
            continue
        rests = {each.removeprefix(PREFIX): each for each in known}  # what all share makes nothing alike
        near = difflib.get_close_matches(name.removeprefix(PREFIX), rests, n=1, cutoff=0.6)
        raise BadSetting(
            f"{name} is no setting{f'; did you mean {rests[near[0]]}?' if near else '; see headway config'}"
        )


def _origin(sources: Iterable[str]) -> Origin:
    found = set(sources)
    if not found:
        return Origin.DEFAULT
    return Origin.ENVIRONMENT if found == {"env"} else Origin.FLAG


def _split(kind: Any, value: str, *, delimiter: str | None = None) -> list[str]:  # noqa: ARG001 - the library's call
    return value.replace(",", " ").split() if getattr(kind, "__origin__", None) is tuple else [value]
