"""A model's chat template: jinja2 in a sandbox, with an allowance of work, time and output.

A template arrives inside a model file: it is code from a stranger. What bounds it:
  * the sandbox: no attribute, method or global that reaches Python; nothing that it is given can be changed;
  * every loop turn and every call spends from an allowance, which also looks at the clock;
  * what `+`, `~`, `*`, `**`, `%` and `range` make is limited in size, and output is counted while it is made.
What does not: a single filter or method that builds a huge string at once (`'x'.ljust(10**9)`) cannot be interrupted in a
thread. A template is therefore tried first in a process of its own, with limits that the kernel enforces
(`template_probe`), and is only served when that went well.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from services.router.text.errors import TemplateBroken, TemplateRefused, TemplateTooCostly

MAX_TEMPLATE_BYTES = 2**20
_MAX_NUMBER_BITS = 4096
_REASON_CHARS = 300


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one rendering may use."""

    operations: int = 1_000_000  # loop turns and calls
    seconds: float = 5.0
    output_chars: int = 32 * 2**20


class _Meter:
    """What is left of an allowance during one rendering."""

    def __init__(self, allowance: Allowance) -> None:
        self._operations_left = allowance.operations
        self._deadline = time.monotonic() + allowance.seconds
        self.output_chars = allowance.output_chars

    def spend(self) -> None:
        self._operations_left -= 1
        if self._operations_left < 0:
            raise TemplateTooCostly("the chat template takes too many steps")
        if time.monotonic() > self._deadline:
            raise TemplateTooCostly("the chat template takes too long")


_meter: ContextVar[_Meter] = ContextVar("meter")


class _Metering(NodeTransformer):
    """Rewrites a parsed template so that each loop pays for its turns and each `~` is measured."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (jinja2's name)
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "metered", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 (jinja2's name)
        self.generic_visit(node)
        return nodes.Filter(node, "measured", [], [], None, None, lineno=node.lineno)


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with every loop, call and growing text metered."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _Metering().visit(template)
        return template

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        _meter.get().spend()
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if _text_size(operator, left, right) > _meter.get().output_chars:
            raise TemplateTooCostly("the chat template builds too long a text")
        if _number_bits(operator, left, right) > _MAX_NUMBER_BITS:
            raise TemplateTooCostly("the chat template builds too large a number")
        return super().call_binop(context, operator, left, right)


def _text_size(operator: str, left: Any, right: Any) -> int:
    """About how many characters or items `left operator right` has; 0 when it is a number."""
    left_size, right_size = (len(side) if hasattr(side, "__len__") else 0 for side in (left, right))
    if operator == "+":
        return left_size + right_size
    if operator == "*":
        times = right if left_size else left
        return (left_size or right_size) * times if isinstance(times, int) else 0
    if operator == "%" and isinstance(left, str):
        # The widths that a format asks for stand in it as digits.
        return left_size + len(str(right)) + sum(int(width) for width in re.findall(r"[0-9]{1,18}", left))
    return 0


def _number_bits(operator: str, left: Any, right: Any) -> int:
    """About how many bits `left operator right` has; 0 when it is no integer."""
    if not (isinstance(left, int) and isinstance(right, int)):
        return 0
    if operator == "**":
        return left.bit_length() * right
    return left.bit_length() + right.bit_length()


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}`: marks what the assistant said, for training; here it only renders."""

    tags = {"generation"}  # noqa: RUF012 (jinja2's own declaration)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Metered:
    """Iterates once over `items`, paying for each."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        spend = _meter.get().spend
        for item in self._items:
            spend()
            yield item


class _SizedMetered(_Metered):
    """The same with a length, so that `loop.length` and `loop.last` need not run ahead."""

    def __len__(self) -> int:
        return len(self._items)


def _metered(items: Any) -> Any:
    if isinstance(items, Undefined):  # jinja2 has its own word for a name that is not there
        return items
    return (_SizedMetered if hasattr(items, "__len__") else _Metered)(items)


def _measured(text: str) -> str:
    if len(text) > _meter.get().output_chars:
        raise TemplateTooCostly("the chat template builds too long a text")
    return text


def _raise_exception(message: object) -> NoReturn:
    raise TemplateRefused(str(message)[:_REASON_CHARS])


def _strftime_now(form: str) -> str:
    """Today's date in UTC, at midnight: a prompt that names the time of day would never find its prefix again."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today.strftime(form[:_REASON_CHARS])


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as templates expect it: characters as they are, nothing escaped for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _environment() -> _Environment:
    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation])
    environment.filters["metered"] = _metered
    environment.filters["measured"] = _measured
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class ChatTemplate:
    """One compiled template; may be rendered from any thread."""

    def __init__(
        self, source: str, special_tokens: Mapping[str, str] | None = None, allowance: Allowance | None = None
    ) -> None:
        """Raises `TemplateBroken`. `special_tokens`: the names that templates use, such as bos_token."""
        if len(source) > MAX_TEMPLATE_BYTES:
            raise TemplateBroken("the chat template is too large")
        self._allowance = allowance or Allowance()
        self._special_tokens = dict(special_tokens or {})
        try:
            self._template = _environment().from_string(source)
        except (jinja2.TemplateError, RecursionError, SyntaxError, ValueError) as error:
            raise TemplateBroken(f"the chat template is not valid: {error}") from error

    def render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> str:
        """The conversation as the model reads it. Raises a `TemplateError`."""
        variables = {
            **self._special_tokens,
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "tools": None,  # templates ask `tools is not none`
            "documents": None,
        }
        meter = _Meter(self._allowance)
        token = _meter.set(meter)
        try:
            return _guarded(lambda: _collected(self._template.generate(variables), meter.output_chars))
        finally:
            _meter.reset(token)


def _collected(pieces: Iterable[str], most_chars: int) -> str:
    taken: list[str] = []
    for piece in pieces:
        most_chars -= len(piece)
        if most_chars < 0:
            raise TemplateTooCostly("the chat template writes too much")
        taken.append(piece)
    return "".join(taken)


def _guarded(render: Callable[[], str]) -> str:
    """`render()`, whatever a stranger's code raises put into our words."""
    try:
        return render()
    except (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise TemplateBroken(f"the chat template failed: {str(error)[:_REASON_CHARS]}") from error
    except (RecursionError, MemoryError) as error:
        raise TemplateTooCostly("the chat template nests too deep or takes too much memory") from error
