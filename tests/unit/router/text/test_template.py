"""Chat templates: rendered as their authors mean it, and bounded although they are a stranger's code."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from services.router.text.errors import TemplateBroken, TemplateError, TemplateRefused, TemplateTooCostly
from services.router.text.template import Allowance, ChatTemplate
from tests.unit.router.text import models

HELLO = [{"role": "user", "content": "hello"}]
TALK = [*HELLO, {"role": "assistant", "content": "good day"}, {"role": "user", "content": "bye"}]


def render(source, messages=HELLO, **arguments):
    return ChatTemplate(source, {"bos_token": "<s>"}, Allowance(seconds=2, output_chars=100_000)).render(
        messages, **arguments
    )


def test_chatml_is_rendered_with_and_without_the_generation_prompt():
    """The commonest template, character by character."""
    spoken = "<|im_start|>user\nhello<|im_end|>\n"
    assert render(models.CHATML) == spoken + "<|im_start|>assistant\n"
    assert render(models.CHATML, add_generation_prompt=False) == spoken


SYSTEM = [{"role": "system", "content": " be brief "}]
THOUGHT = [
    *HELLO,
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"},
    {"role": "user", "content": "why?"},
]


@pytest.mark.parametrize("generate", [True, False])
@pytest.mark.parametrize("messages", [HELLO, TALK, SYSTEM + TALK, THOUGHT])
@pytest.mark.parametrize("source", [models.CHATML, models.TRIMMING, models.THINKING, models.FOLDING, models.INDENTED])
def test_conversations_are_rendered_as_by_transformers(source, messages, generate):
    """Character by character, over the idioms of the families that are served."""
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    theirs = render_jinja_template([messages], chat_template=source, add_generation_prompt=generate, **names)[0][0]
    assert ChatTemplate(source, names).render(messages, add_generation_prompt=generate) == theirs


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}{{ eos_token }}", "<s>"),
        ("{% if tools is not none %}tools{% endif %}{% if documents %}documents{% endif %}x", "x"),
        (
            "{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ loop.last }};{% endfor %}",
            "1/3False;2/3False;3/3True;",
        ),
        (
            "{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{{ m.content }},{% endfor %}",
            "hello,bye,",
        ),
        ("{% for m in messages %}{% break %}{% endfor %}x", "x"),
        ("{% for m in messages[::-1] if m.role == 'user' %}{{ m['content'] }} {% endfor %}", "bye hello "),
        ("{% for m in nothing %}a{% else %}none{% endfor %}", "none"),
        ("{% for k, v in messages[0].items() %}{{ k }}={{ v }} {% endfor %}", "role=user content=hello "),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "3"),
        ("{{ {'a': '<한>\"'} | tojson }}", '{"a": "<한>\\""}'),
        ("{{ '<' + messages[0].content ~ '>' }}{{ 'ab' * 2 }}{{ 2 ** 3 }}{{ '%s' % 5 }}", "<hello>abab85"),
        ("{% generation %}{{ messages[1].content }}{% endgeneration %}", "good day"),
        ("{% macro say(m) %}[{{ m.content }}]{% endmacro %}{{ say(messages[0]) }}", "[hello]"),
        ("{% if true %}\n    a\n{% endif %}\nb\n", "    a\nb"),
    ],
)
def test_what_templates_use_works(source, text):
    """Names, loops, filters, macros and the whitespace rules that templates are written for."""
    assert render(source, TALK) == text


def test_the_date_does_not_tell_the_time():
    """A template that asks for the time gets midnight, so that its prompts keep their prefix for a day."""
    date, clock = render("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}").split()
    assert clock == "00:00:00"
    assert abs(datetime.now(UTC) - datetime.fromisoformat(date + "T00:00:00+00:00")) < timedelta(days=2)


def test_a_template_refuses_in_its_own_words():
    """`raise_exception` is the conversation's fault, not the template's."""
    with pytest.raises(TemplateRefused, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{% if %}", "{{ ", "{% include 'x' %}", "{% for m in messages %}", "x" * (2**20 + 1),
        "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ messages.append(1) }}", "{{ messages[0].update(a=1) }}",
        "{{ cycler.__init__.__globals__ }}", "{{ render.x.y }}",
        "{{ 1 / 0 }}", "{{ nothing.at.all }}", "{{ messages[0].content.format(1).nothing() }}", "{{ 'a' + 1 }}",
        "{% import 'os' as os %}", "{{ '{0.__class__.__mro__}'.format('') }}", "{{ '%d' % 'x' }}",
    ],
)  # fmt: skip
def test_what_is_broken_or_reaches_out_of_the_sandbox_is_an_error(source):
    """Nothing but our own errors comes out, whatever the template tries."""
    with pytest.raises(TemplateBroken):
        render(source)


DOUBLING = "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s OP ns.s %}{% endfor %}"


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = i %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}" + "x" * 99 + "{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(50) }}",
        "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
        "{{ 'x' * 10 ** 9 }}", "{{ 10 ** 9 * 'x' }}", "{{ [1] * 10 ** 9 }}", "{{ '%999999999d' % 1 }}", "{{ 2 ** (2 ** 40) }}",
        DOUBLING.replace("OP", "~"), DOUBLING.replace("OP", "+"), DOUBLING.replace("'xx'", "9").replace("OP", "*"),
    ],
)  # fmt: skip
def test_a_costly_template_is_stopped(source):
    """Loops, recursion and growing values end within the allowance of work, time and size."""
    started = time.monotonic()
    with pytest.raises(TemplateTooCostly):
        render(source)
    assert time.monotonic() - started < 10


def test_a_range_is_bounded():
    """The sandbox's own limit holds."""
    with pytest.raises(TemplateError, match="Range too big"):
        render("{{ range(10 ** 9) | list }}")


def test_one_template_renders_in_many_threads():
    """Each rendering has its own allowance and its own variables."""
    template = ChatTemplate(models.CHATML, {}, Allowance(operations=100))
    wrong = []

    def work(number):
        for turn in range(100):
            messages = [{"role": "user", "content": f"{number}:{turn}"}]
            if f"{number}:{turn}" not in template.render(messages):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
