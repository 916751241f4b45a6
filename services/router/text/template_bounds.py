"""What a chat template may call: filters and methods whose results are bounded before they are made.

A list of what is allowed, not of what is forbidden: a filter or method that is not named here is not served. Most make no
more than a small multiple of what they are given. Those that can make much of little (`'x'.ljust(10**9)`) are asked
first how much it will be, and those that would take long for what they are given get no more than they can handle.
"""

import functools
import re
import types
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from string import Formatter
from typing import Any

from services.router.text.errors import TemplateBroken, TemplateTooCostly
from services.router.text.template_meter import Meter, current

Check = Callable[..., None]
"""Called with the meter, the value, and the arguments as the filter or method gets them; raises what is too costly."""

_MAX_NAME_CHARS = 256
_MAX_NEEDLE_CHARS = 1024
_MAX_DIGITS = 100
_MAX_INDENT = 32

_LINEAR_FILTERS = frozenset(
    {
        "abs",
        "attr",
        "capitalize",
        "count",
        "d",
        "default",
        "dictsort",
        "e",
        "escape",
        "first",
        "float",
        "groupby",
        "int",
        "items",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "reverse",
        "select",
        "selectattr",
        "slice",
        "sort",
        "string",
        "title",
        "unique",
        "upper",
        "wordcount",
    }
)
_NAMED = frozenset(
    {"attr", "groupby", "map", "max", "min", "reject", "rejectattr", "select", "selectattr", "sort", "unique"}
)
"""Filters that look into items by a name, which they go through for each item."""
_LINEAR_METHODS = frozenset(
    {
        "capitalize",
        "casefold",
        "count",
        "endswith",
        "find",
        "index",
        "isalnum",
        "isalpha",
        "isascii",
        "isdecimal",
        "isdigit",
        "isidentifier",
        "islower",
        "isnumeric",
        "isprintable",
        "isspace",
        "istitle",
        "isupper",
        "lower",
        "partition",
        "removeprefix",
        "removesuffix",
        "split",
        "splitlines",
        "startswith",
        "swapcase",
        "title",
        "upper",
    }
)
_CONTAINER_METHODS = frozenset({"copy", "count", "get", "index", "items", "keys", "values"})
_COMPILERS_OWN = frozenset({"_block_vars", "_loop_vars"})  # jinja2 passes these to each call
_NUMBER_METHODS = frozenset({"bit_length", "is_integer"})


def _padded(meter: Meter, text: Any, width: int = 80, *_: Any) -> None:
    meter.check(max(len(str(text)), width))


def _replaced(meter: Meter, text: Any, old: Any, new: Any, count: int | None = None) -> None:
    text, old, new = str(text), str(old), str(new)
    times = text.count(old)
    if count is not None and count >= 0:
        times = min(times, count)
    meter.check(len(text) + times * max(0, len(new) - len(old)))


def _expanded(meter: Meter, text: str, tabsize: int = 8) -> None:
    meter.check(len(text) + text.count("\t") * tabsize)


def _indented(meter: Meter, text: Any, width: int | str = 4, *_: Any, **__: Any) -> None:
    text = str(text)
    meter.check(len(text) + (len(text.splitlines()) + 1) * (len(width) if isinstance(width, str) else width))


def _joined(meter: Meter, items: Any, separator: Any = "", *_: Any, **__: Any) -> None:
    if hasattr(items, "__len__"):
        meter.check(meter.size(items).weight + len(items) * len(str(separator)))


def _joined_by(meter: Meter, separator: str, items: Any) -> None:
    _joined(meter, items, separator)


def _formatted(meter: Meter, form: Any, *args: Any, **kwargs: Any) -> None:
    check_percent(meter, str(form), kwargs or args)


def _stripped(_: Meter, __: Any, chars: str | None = None) -> None:
    if chars is not None and len(chars) > _MAX_NEEDLE_CHARS:
        raise TemplateTooCostly("the chat template strips too many kinds of characters")


def _searched(meter: Meter, _: Any, needle: Any = None, *__: Any, **___: Any) -> None:
    _stripped(meter, _, needle)


def _batched(meter: Meter, _: Any, linecount: int, *__: Any) -> None:
    meter.check(linecount)


def _rounded(_: Meter, __: Any, precision: int = 0, *___: Any) -> None:
    if abs(precision) > _MAX_DIGITS:
        raise TemplateTooCostly("the chat template rounds to too many digits")


def _summed(_: Meter, __: Any, attribute: Any = None, start: Any = 0) -> None:
    if isinstance(attribute, str) and len(attribute) > _MAX_NAME_CHARS:
        raise TemplateTooCostly("the chat template looks for too long a name")
    if not isinstance(start, int | float):
        raise TemplateBroken("the chat template adds up what are no numbers")


def _truncated(_: Meter, __: Any, ___: int = 255, ____: bool = False, end: str = "...", *_____: Any) -> None:
    if len(end) > _MAX_NAME_CHARS:
        raise TemplateTooCostly("the chat template ends a text with too long a text")


def _json(
    meter: Meter, value: Any, indent: int | None = None, separators: Iterable[str] | None = None, **_: Any
) -> None:
    size = meter.size(value)
    beside = sum(map(len, separators or ())) + 8
    if indent is not None:
        if not isinstance(indent, int) or indent > _MAX_INDENT:
            raise TemplateTooCostly("the chat template indents too far")
        beside += indent * size.nesting
    meter.check(size.chars + size.nodes * beside)


_CHECKED_FILTERS: dict[str, Check] = {
    "batch": _batched,
    "center": _padded,
    "format": _formatted,
    "indent": _indented,
    "join": _joined,
    "replace": _replaced,
    "round": _rounded,
    "sum": _summed,
    "tojson": _json,
    "trim": _stripped,
    "truncate": _truncated,
}
_CHECKED_METHODS: dict[str, Check] = {
    "center": _padded,
    "expandtabs": _expanded,
    "join": _joined_by,
    "ljust": _padded,
    "lstrip": _stripped,
    "replace": _replaced,
    "rfind": _searched,
    "rindex": _searched,
    "rjust": _padded,
    "rpartition": _searched,
    "rsplit": _searched,
    "rstrip": _stripped,
    "strip": _stripped,
    "zfill": _padded,
}


def check_percent(meter: Meter, form: str, arguments: Any) -> None:
    """Bounds `form % arguments`. The widths that a form asks for stand in it as digits; `*` takes them from anywhere."""
    if "*" in form and re.search(r"%[^a-zA-Z%]*\*", form):
        raise TemplateBroken("the chat template takes the width of a text from its arguments")
    widths = sum(int(width) for width in re.findall(r"[0-9]{1,18}", form))
    # A named argument may be asked for by each `%`.
    times = form.count("%") if isinstance(arguments, dict) else 1
    whole = meter.size(arguments).weight if not isinstance(arguments, str) else len(arguments)
    meter.check(len(form) + widths + times * whole)


def bound_filters(filters: MutableMapping[str, Callable[..., Any]]) -> None:
    """Leaves only filters whose results are bounded, each of them metered."""
    for name in list(filters):
        function = filters.pop(name)
        if name in _LINEAR_FILTERS or name in _CHECKED_FILTERS:
            filters[name] = metered(function, _CHECKED_FILTERS.get(name), is_named=name in _NAMED)


def metered(function: Callable[..., Any], check: Check | None = None, *, is_named: bool = False) -> Callable[..., Any]:
    """The filter, paid for and bounded. Outside of a rendering it raises LookupError, so that no compiler folds it."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0  # the environment or the like comes before the value

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        meter = current()
        meter.spend()
        value, rest = args[first], args[first + 1 :]
        if isinstance(value, str):
            meter.check(len(value))
        if check is _joined and isinstance(value, Iterator):
            value = meter.made(list(value))
        if is_named and any(
            isinstance(name, str) and len(name) > _MAX_NAME_CHARS for name in (*rest, *kwargs.values())
        ):
            raise TemplateTooCostly("the chat template looks for too long a name")
        if check:
            check(meter, value, *rest, **kwargs)
        return meter.made(function(*args[:first], value, *rest, **kwargs))

    return bounded


def call_bounded(function: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`call(function, ...)` where that is a call whose result is bounded."""
    meter = current()
    meter.spend()
    owner = getattr(function, "__self__", None)
    if isinstance(function, types.MethodDescriptorType | types.ClassMethodDescriptorType):
        raise TemplateBroken("the chat template calls what is no method of a value")
    if isinstance(owner, str):
        args = _checked_method(meter, function.__name__, owner, args, kwargs)
    elif isinstance(function, types.BuiltinMethodType):
        allowed = _NUMBER_METHODS if isinstance(owner, int | float) else _CONTAINER_METHODS
        if function.__name__ not in allowed or isinstance(owner, type):
            raise TemplateBroken(f"the chat template calls {function.__name__}, which is not served")
    return meter.made(call(function, *args, **kwargs), with_items=isinstance(owner, str))


def _checked_method(
    meter: Meter, name: str, text: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    meter.check(len(text))
    if name == "join" and len(args) == 1 and isinstance(args[0], Iterator):
        args = (meter.made(list(args[0])),)
    check = _CHECKED_METHODS.get(name)
    if check:
        check(meter, text, *args, **{key: value for key, value in kwargs.items() if key not in _COMPILERS_OWN})
    elif name not in _LINEAR_METHODS:
        raise TemplateBroken(f"the chat template calls {name}, which is not served")
    return args


class MeteredFields(Formatter):
    """Pays for each field of a `str.format`, and bounds its width."""

    def format_field(self, value: Any, format_spec: str) -> str:
        meter = current()
        meter.spend()
        meter.check(sum(int(width) for width in re.findall(r"[0-9]{1,18}", format_spec)))
        text: str = meter.made(super().format_field(value, format_spec))
        return text
