"""A model's chat template: jinja2 in a sandbox, with an allowance of work, time, memory and output.

A template arrives inside a model file: it is code from a stranger. What bounds it:
  * the sandbox: no attribute, method or global that reaches Python; nothing that it is given can be changed;
  * nothing is worked out while it is compiled: all of its work happens in renderings, under a meter;
  * every loop turn, call, filter, comparison and output spends from an allowance, which also looks at the clock;
  * every value that it makes is bounded, where that is needed before it is made, and paid for (`template_meter`), and it
    can only call what is known to make no more than that (`template_bounds`).
What remains: a single operation on the largest value that is allowed (8 million characters, half a million items) cannot be
interrupted, and takes up to a second or so beyond the deadline; a rendering may hold some hundred megabytes while it lasts.
A template is tried first in a process of its own, with limits that the kernel enforces (`template_probe`), and is
only served when that went well.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined, str_join
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace, pass_context
from jinja2.visitor import NodeTransformer
from markupsafe import escape

from services.router.text import template_meter
from services.router.text.errors import TemplateBroken, TemplateRefused, TemplateTooCostly
from services.router.text.template_bounds import MeteredFields, bound_filters, call_bounded, check_percent, metered
from services.router.text.template_meter import Allowance, Meter, current

MAX_TEMPLATE_BYTES = 2**20
_MAX_NUMBER_BITS = 4096
_REASON_CHARS = 300


_OPERATORS = frozenset(ImmutableSandboxedEnvironment.default_binop_table)


class _Metering(NodeTransformer):
    """Rewrites a parsed template so that whatever makes or looks through a value is metered."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (jinja2's names, here and below)
        self.generic_visit(node)
        node.iter = _through("turns", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _through("pasted", nodes.Tuple(node.nodes, "load", lineno=node.lineno))

    def visit_List(self, node: nodes.List | nodes.Dict | nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        is_constant = not isinstance(node, nodes.Dict) and all(isinstance(item, nodes.Const) for item in node.items)
        return node if is_constant or getattr(node, "ctx", "load") != "load" else _through("made", node)

    visit_Dict = visit_Tuple = visit_List  # noqa: N815

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _through("made", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Name(self, node: nodes.Name) -> nodes.Node:  # noqa: N802
        """What a macro is given beyond its parameters comes as a list that nobody has made."""
        return _through("made", node) if node.ctx == "load" and node.name in ("varargs", "kwargs") else node

    def visit_Compare(self, node: nodes.Compare | nodes.Test) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _through("counted", node)

    visit_Test = visit_Compare  # noqa: N815

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:  # noqa: N802
        """Text between tags is paid for like any output: it may be inside a loop inside a macro."""
        return nodes.Const(node.data, lineno=node.lineno)

    def visit_ScopedEvalContextModifier(self, node: nodes.Node) -> NoReturn:  # noqa: N802
        raise TemplateBroken(f"the chat template escapes for HTML (line {node.lineno}), which is not served")

    visit_EvalContextModifier = visit_ScopedEvalContextModifier  # noqa: N815


def _through(name: str, node: nodes.Node) -> nodes.Filter:
    assert isinstance(node, nodes.Expr)
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Formatter(MeteredFields, SandboxedFormatter):
    """`str.format` in the sandbox, metered."""


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, where all that a template makes is metered."""

    intercepted_binops = _OPERATORS

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _Metering().visit(template)
        template.set_environment(self)
        return template

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
            return super(_Environment, self).call(context, function, *args, **kwargs)

        return call_bounded(obj, call, args, kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        meter = current()
        meter.spend()
        if operator == "%" and isinstance(left, str):
            check_percent(meter, left, right)
        meter.check(_text_size(operator, left, right))
        if _number_bits(operator, left, right) > _MAX_NUMBER_BITS:
            raise TemplateTooCostly("the chat template builds too large a number")
        return meter.made(super().call_binop(context, operator, left, right))

    def getitem(self, obj: Any, argument: Any) -> Any:
        current().spend()
        return super().getitem(obj, argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        current().spend()
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        name = getattr(value, "__name__", "") if super().wrap_str_format(value) else ""
        if not name:
            return None
        form: str = value.__self__

        def wrapped(*args: Any, **kwargs: Any) -> str:
            if name == "format_map":
                (kwargs,), args = args, ()
            return _Formatter(self).vformat(form, args, kwargs)

        return wrapped


def _text_size(operator: str, left: Any, right: Any) -> int:
    """About how many characters or items `left operator right` has; 0 when it is a number."""
    left_size, right_size = (len(side) if hasattr(side, "__len__") else 0 for side in (left, right))
    if operator == "+":
        return left_size + right_size
    if operator == "*":
        times = right if left_size else left
        return (left_size or right_size) * times if isinstance(times, int) else 0
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


class _Turns:
    """Iterates once over `items`, paying for each."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        spend = current().spend
        for item in self._items:
            spend()
            yield item


class _SizedTurns(_Turns):
    """The same with a length, so that `loop.length` and `loop.last` need not run ahead."""

    def __len__(self) -> int:
        return len(self._items)


def _turns(items: Any) -> Any:
    if isinstance(items, Undefined):  # jinja2 has its own word for a name that is not there
        return items
    return (_SizedTurns if hasattr(items, "__len__") else _Turns)(items)


def _made(value: Any) -> Any:
    """A list, a slice or the like that the template has just made."""
    return value


def _counted(value: Any) -> Any:
    current().spend()
    return value


def _pasted(parts: tuple[Any, ...]) -> str:
    """What `~` makes."""
    meter = current()
    meter.check(sum(meter.size(part).weight for part in parts))
    return str_join(parts)


@pass_context  # which also tells the compiler that it cannot be worked out beforehand
def _shown(_: Context, value: Any) -> str:
    """What an output writes."""
    meter = current()
    meter.spend()
    text: str = meter.made(value if type(value) is str else str(value))
    return text


class _Namespace(Namespace):
    """Does not show what it holds: that can change after it was measured."""

    def __repr__(self) -> str:
        return "<namespace>"


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
    environment = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[loopcontrols, _Generation],
        optimized=False,  # it would work out constant expressions where no meter runs
        finalize=_shown,
    )
    environment.filters["tojson"] = _to_json
    environment.filters["e"] = environment.filters["escape"] = lambda value: str(escape(value))
    bound_filters(environment.filters)
    environment.filters["safe"] = metered(str)  # nothing is escaped here
    environment.filters["made"] = metered(_made)
    environment.filters["pasted"] = metered(_pasted)
    environment.filters["turns"] = _turns
    environment.filters["counted"] = _counted
    environment.globals["namespace"] = _Namespace
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    del environment.globals["lipsum"]  # makes text out of nothing
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
        except (jinja2.TemplateError, SyntaxError, ValueError) as error:
            raise TemplateBroken(f"the chat template is not valid: {error}") from error
        except (RecursionError, MemoryError) as error:
            raise TemplateTooCostly("the chat template nests too deep or takes too much memory") from error

    def render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> str:
        """The conversation as the model reads it. Raises a `TemplateError`."""
        variables = {
            **self._special_tokens,
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "tools": None,  # templates ask `tools is not none`
            "documents": None,
        }
        meter = Meter(self._allowance)
        token = template_meter.enter(meter)
        try:
            return _guarded(lambda: _collected(self._template.generate(variables), meter.output_chars))
        finally:
            template_meter.leave(token)


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
