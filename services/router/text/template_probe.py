"""Tries a stranger's chat template in a process of its own, where the kernel bounds what it may use.

`probe` is the caller's half. Run as a module, this file is the other half: it reads the template from standard input,
renders a few conversations and prints what it found.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from services.router.text.errors import TemplateBroken, TemplateError, TemplateRefused, TemplateTooCostly
from services.router.text.template import ChatTemplate

_TIME_LIMIT_S = 10
_MEMORY_LIMIT_BYTES = 2**30
_OUTPUT_LIMIT_BYTES = 4096

_USER = {"role": "user", "content": "Hello"}
_ASSISTANT = {"role": "assistant", "content": "Good day. <a>{b}"}
_CONVERSATIONS = (
    [_USER],
    [{"role": "system", "content": "Be brief."}, _USER],
    [_USER, _ASSISTANT, _USER],
    [_USER, _ASSISTANT] * 32 + [_USER],
)


def probe(source: str, special_tokens: Mapping[str, str]) -> None:
    """Raises a `TemplateError` when the template cannot be served. Takes up to ten seconds: not for the event loop."""
    # The child gets no more of our environment than where to find its code.
    environment = {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    try:
        done = subprocess.run(  # noqa: S603 (our own interpreter and module)
            [sys.executable, "-P", "-m", __name__],
            input=json.dumps({"source": source, "special_tokens": dict(special_tokens)}).encode(),
            capture_output=True,
            timeout=_TIME_LIMIT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TemplateTooCostly("the chat template takes too long") from error
    if done.returncode != 0:
        raise TemplateTooCostly("the chat template used up its memory or time")
    answer = json.loads(done.stdout[:_OUTPUT_LIMIT_BYTES])
    if answer["fault"]:
        raise TemplateBroken(answer["fault"])


def _fault(source: str, special_tokens: Mapping[str, str]) -> str:
    """Why the template cannot be served; empty when it can. It may refuse conversations, but not all of them."""
    refusal = ""
    try:
        template = ChatTemplate(source, special_tokens)
    except TemplateError as error:
        return str(error)
    for number, conversation in enumerate(_CONVERSATIONS):
        try:
            template.render(conversation)
        except TemplateRefused as error:
            if number == 0:
                refusal = f"the chat template refuses a lone user message: {error}"
        except TemplateError as error:
            return str(error)
    return refusal


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT_BYTES, _MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_TIME_LIMIT_S, _TIME_LIMIT_S))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    asked = json.load(sys.stdin)
    sys.stdout.write(json.dumps({"fault": _fault(asked["source"], asked["special_tokens"])[:500]}))


if __name__ == "__main__":
    main()
