"""A template is tried in a process of its own before it is served."""

import os

import pytest

from services.router.text import template_probe
from services.router.text.errors import TemplateBroken, TemplateError, TemplateTooCostly
from services.router.text.template_probe import probe
from tests.unit.router.text import models


@pytest.mark.parametrize("source", [models.CHATML, models.TRIMMING, models.THINKING])
def test_a_good_template_passes(source):
    """Nothing is raised."""
    probe(source, {"bos_token": "<s>"})


def test_a_template_may_refuse_some_conversations():
    """One that knows no system role is as good as any other."""
    probe("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}", {})


@pytest.mark.parametrize("source", ["{{ raise_exception('never') }}", "{% if %}", "{{ nothing.at.all }}"])
def test_a_template_that_cannot_render_a_greeting_fails(source):
    """It would fail every chat."""
    with pytest.raises(TemplateBroken):
        probe(source, {})


@pytest.mark.parametrize("source", ["{{ 'x'.ljust(10 ** 10) }}", "{{ 'x' | center(10 ** 10) }}"])
def test_what_takes_too_much_memory_at_once_is_stopped_by_the_kernel(source):
    """A single huge string is out of the sandbox's reach, not out of the probe's."""
    with pytest.raises(TemplateError):
        probe(source, {})


def test_a_template_that_does_not_end_is_killed(monkeypatch):
    """Nothing inside the process has to cooperate."""
    monkeypatch.setattr(template_probe, "_TIME_LIMIT_S", 1)
    # It would be stopped by its allowance of five seconds.
    source = "{% for i in range(9999) %}{% set a = range(99999) | map('string') | sort %}{% endfor %}"
    with pytest.raises(TemplateTooCostly):
        probe(source, {})


def test_the_child_sees_nothing_of_our_environment(monkeypatch):
    """Secrets in the environment stay out of a stranger's reach."""
    seen = {}

    def run(*_, env, **__):
        seen.update(env)
        raise template_probe.subprocess.TimeoutExpired("", 1)

    monkeypatch.setattr(template_probe.subprocess, "run", run)
    with pytest.raises(TemplateTooCostly):
        probe("x", {})
    assert set(seen) == {"PYTHONPATH"}
    assert len(os.environ) > 1
