"""Templates that would make gigabytes, or take minutes, in a single operation: refused before it begins."""

import time
import tracemalloc

import pytest

from services.router.text.errors import TemplateBroken, TemplateTooCostly
from services.router.text.template import Allowance, ChatTemplate

MESSAGES = [{"role": "user", "content": "BOOM" * 25_000}]
BIG = "{% set b = messages[0].content %}"
NESTED = "{% set ns = namespace(a=[1, 2], b=[1, 2]) %}{% for i in range(60) %}SET{% endfor %}"


def render(source, **allowance):
    return ChatTemplate(source, {}, Allowance(**allowance)).render(MESSAGES)


@pytest.mark.parametrize(
    "source",
    [
        # methods of texts
        "{{ 'x'.ljust(10 ** 9) }}", "{{ 'x'.rjust(10 ** 9) }}", "{{ 'x'.center(10 ** 9) }}", "{{ '1'.zfill(10 ** 9) }}",
        "{{ ('x' * 10 ** 6).replace('x', 'y' * 99) }}", "{{ 'x'.replace('', 'y' * 5000000) }}",
        "{{ ('\t' * 10 ** 6).expandtabs(10 ** 5) }}", "{{ ('y' * 10 ** 5).join(['x'] * 9999) }}",
        "{{ ('y' * 10 ** 5).join(range(9999) | map('string')) }}",
        "{{ '{:>999999999}'.format(1) }}", "{{ '{:{w}}'.format(1, w=10 ** 9) }}", "{{ ('{0}' * 9999).format(messages[0].content) }}",
        "{{ '{a:>999999999}'.format_map({'a': 1}) }}", "{{ messages[0].content | attr('ljust') }}{{ ('x' | attr('ljust'))(10 ** 9) }}",
        # filters
        "{{ 'x' | center(10 ** 9) }}", "{{ 'x' | center(width=10 ** 9) }}", "{{ ['x'] | map('center', 10 ** 9) | list }}",
        "{{ 'x' | indent(10 ** 9, true) }}", "{{ 'x\n\nx' | indent('y' * 5000000) }}", "{{ 'x' | replace('', 'y' * 5000000) }}",
        "{{ (['x'] * 9999) | join('y' * 10 ** 5) }}", "{{ range(9999) | join('y' * 10 ** 5) }}",
        "{{ [1] | batch(10 ** 9, 'x') | list }}", "{{ 1.5 | round(10 ** 9, 'floor') }}", "{{ 'x y' | truncate(2, true, 'z' * 10 ** 6) }}",
        "{{ '%999999999d' | format(1) }}", "{{ messages | tojson(indent=10 ** 9) }}",
        "{% set x %}{% for i in range(999) %}{{ messages[0].content }}{% endfor %}{% endset %}{{ x | list | sort }}",
        # operators
        "{{ ('%(a)s' * 9999) % {'a': messages[0].content} }}", "{{ ([messages[0].content] * 99) | string * 99 }}",
        # what is nested doubles each turn
        NESTED.replace("SET", "{% set ns.a = [ns.a, ns.a] %}") + "{{ ns.a }}",
        NESTED.replace("SET", "{% set ns.a = {'k': ns.a, 'l': ns.a} %}") + "{{ ns.a | tojson }}",
        NESTED.replace("SET", "{% set ns.a = (ns.a, ns.a) %}{% set ns.b = (ns.b, ns.b) %}") + "{{ ns.a == ns.b }}",
        NESTED.replace("SET", "{% set ns.a = dict(k=ns.a, l=ns.a) %}") + "{{ ns.a }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1, varargs, varargs) }}{% else %}{{ varargs == 1 }}{% endif %}{% endmacro %}{{ f(40, 1) }}",
        # each value is small, all together are not
        BIG + "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [b[1:]] %}{% endfor %}",
        BIG + "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [b ~ i] %}{% endfor %}",
        BIG + "{% for i in range(9999) %}{% set l = b | upper %}{% endfor %}",
        BIG + "{% set ns = namespace(l=1) %}{% for i in range(9999) %}{% set ns.l = namespace(a=ns.l, b=b.partition('O')) %}{% endfor %}",
        BIG + "{% macro f() %}{% for i in range(9999) %}{{ messages[0].content }}{% endfor %}{% endmacro %}{% set a = f() %}",
        "{% macro f() %}{% for i in range(9999) %}" + "x" * 100_000 + "{% endfor %}{% endmacro %}{% set a = f() %}",
        # slow for what they are given
        "{{ ('a' * 400000).strip('b' * 300000 ~ 'a') }}", "{{ ('a' * 800000).rfind('b' ~ 'a' * 400000) }}",
        "{{ range(9999) | list | sort(attribute='0.' * 99999) }}",
        "{{ ([1] * 99999) | " + "select | " * 50 + "list }}",
    ],
)  # fmt: skip
def test_what_would_be_huge_or_slow_is_refused(source):
    """Whatever the conversation led it to: refused soon, and with little memory."""
    tracemalloc.start()
    started = time.monotonic()
    try:
        with pytest.raises(TemplateTooCostly):
            render(source, value_chars=2**20)
        assert time.monotonic() - started < 15  # five seconds are allowed, and tracing makes everything slow
        assert tracemalloc.get_traced_memory()[1] < 300 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "source",
    [
        "{{ (1).to_bytes(10 ** 9, 'big') }}", "{{ 'x'.encode().ljust(10 ** 9) }}", "{{ 'x'.translate({120: 'y' * 99}) }}",
        "{{ '%*d' % (10 ** 9, 1) }}", "{{ '%-*d' % (10 ** 9, 1) }}", "{{ '%*d' | format(10 ** 9, 1) }}", "{{ lipsum(99999) }}",
        "{{ [[1], [2]] | sum(start=[]) }}", "{{ dict.fromkeys([1], 1) }}", "{{ 'x' | wordwrap(1) }}", "{{ [1] | pprint }}",
        "{{ 'x' | urlize }}", "{{ dict.get({}, 1) }}", "{% autoescape true %}{{ 1 }}{% endautoescape %}",
        "{{ ('x' | attr('format'))(1).nothing() }}",
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_bounded_is_not_served(source):
    """Filters and methods are a list of what is allowed."""
    with pytest.raises(TemplateBroken):
        render(source)


def test_a_constant_bomb_is_not_worked_out_while_compiling():
    """Neither by jinja2's optimizer nor by its compiler: there no meter runs, and no branch is dead."""
    tracemalloc.start()
    try:
        bomb = "{{ 'x' | center(99999999) }}{% set a = 'x' | center(99999999) %}{{ 'x' ~ ('y' | center(99999999)) }}"
        template = ChatTemplate("{% if false %}" + bomb + "{% endif %}fine")
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()
    assert template.render(MESSAGES) == "fine"


def test_memory_that_runs_out_while_compiling_is_the_templates_fault(monkeypatch):
    """It is refused like any costly one."""

    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.setattr("services.router.text.template._Environment.from_string", exhausted)
    with pytest.raises(TemplateTooCostly):
        ChatTemplate("x")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ '%s-%5.1f' % ('a', 2) }} {{ '%s' | format('x') }} {{ '%d%%' % 5 }} {{ '%(a)s' % {'a': 1} }}", "a-  2.0 x 5% 1"),
        ("{{ '{0}-{a:>3}'.format(1, a=2) }} {{ '{a}'.format_map({'a': 3}) }} {{ '{!r}'.format('q') }}", "1-  2 3 'q'"),
        ("{{ ['a', 'b'] | join(', ') }} {{ ', '.join(['a', 'b']) }} {{ [1, 2] | map('string') | join }}", "a, b a, b 12"),
        ("{{ 'a' ~ 1 ~ none ~ nothing }} {{ none }} {{ true }} {{ 1.5 }} {{ [1, 'a'] }}", "a1None None True 1.5 [1, 'a']"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ '<a>' | e }} {{ '<a>' | safe }} {{ '<a>' }}", "&lt;a&gt; <a> <a>"),
        ("{{ [3, 1] | sort | first }} {{ {'b': 1} | dictsort }} {{ {'b': 1} | items | list }}", "1 [('b', 1)] [('b', 1)]"),
        ("{{ [1, 2, 3] | batch(2) | list }} {{ (1, 2) | sum }} {{ [1, 2] | reverse | list }}", "[[1, 2], [3]] 3 [2, 1]"),
        ("{% set a, b = 1, 2 %}{{ a + b }}{{ 7 // 2 }}{{ -a }}{{ 5 - 2 }}{{ 'user' in ['user'] }}", "33-13True"),
        ("{% set x %}a{{ 1 }}{% endset %}{{ x | upper }}{% filter upper %}b{% endfilter %}", "A1B"),
        ("{% macro f() %}<{{ caller(2) }}{{ varargs }}>{% endmacro %}{% call(n) f(7) %}c{{ n }}{% endcall %}", "<c2(7,)>"),
        ("{{ 'a\nb' | indent(2) }}|{{ ' x '.strip() }}|{{ 'xyx'.strip('x') }}|{{ 'a,b'.rsplit(',', 1) }}", "a\n  b|x|y|['a', 'b']"),
        ("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ {'k': 1}.get('k') }}{{ 2.0.is_integer() }}", "ab1True"),
        ("{% for a, b in [(1, 2)] %}{{ a }}{{ b }}{{ loop.cycle('x', 'y') }}{% endfor %}{{ 'ab'[::-1] }}", "12xba"),
        ("{{ {'a': [1]} | tojson(indent=1) }} {{ 2.345 | round(1) }} {{ 'abcdefghi' | truncate(5, true, '...', 0) }}", '{\n "a": [\n  1\n ]\n} 2.3 ab...'),
        ("{% macro f(context, obj) %}{{ context }}{{ obj }}{% endmacro %}{{ f(context=1, obj=2) }}", "12"),
        ("{% for i in range(2) %}{{ 'x'.lstrip('y') }}{{ 'a b'.split(' ')[-1] }}{% endfor %}", "xbxb"),
        ("{{ messages[0].content[:4] }}{{ messages[0].content | length }}", "BOOM100000"),
        ("{{ namespace(a=1) }}", "<namespace>"),
    ],
)  # fmt: skip
def test_usual_work_is_done_as_ever(source, text):
    """Bounds change nothing for what stays within them."""
    assert render(source) == text


def test_a_long_conversation_is_far_from_the_bounds():
    """A thousand messages and a megabyte of text, gathered in the clumsiest way that templates have."""
    source = (
        "{% set ns = namespace(text='', kept=[]) %}{% for m in messages %}{% set ns.kept = ns.kept + [m] %}"
        "{% set ns.text = '<' ~ m.role + '>' + m.content | trim + '\n' %}{{ ns.text }}{% endfor %}{{ messages | tojson }}"
    )
    messages = [{"role": "user", "content": "x" * 1000}] * 1000
    assert len(ChatTemplate(source).render(messages)) > 2_000_000
