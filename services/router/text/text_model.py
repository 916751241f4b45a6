"""All that the router does with one model's text: the asynchronous face of this package."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Self, TypeVar

from services.router.text.answer_text import AnswerText, StopRules
from services.router.text.detokenizer import Detokenizers
from services.router.text.errors import TemplateError, TextBusy, UnusableModel
from services.router.text.prompt import Chat, Prompt, PromptLimits, PromptRenderer, chat_roles, check_token_ids
from services.router.text.stop_strings import StopStrings
from services.router.text.template import ChatTemplate
from services.router.text.template_probe import probe
from services.router.text.tokenizer import Tokenizer
from services.wire.execution import ModelCard
from services.wire.message import Int32Column

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TextSettings:
    max_prompt_bytes: int = 2**20
    threads: int = 2
    max_pending: int = 256  # prompts that wait for a thread or hold one


class TextModel:
    """One model's text. Prompts are tokenized off the event loop, so that a long one delays nobody's next token."""

    def __init__(self, card: ModelCard, settings: TextSettings | None = None) -> None:
        """Raises `UnusableModel`. Takes a second or so: use `load` on an event loop."""
        settings = settings or TextSettings()
        self._tokenizer = Tokenizer(card)
        self._detokenizers = Detokenizers(self._tokenizer)
        self._eos_ids = frozenset(card.eos_ids.tolist())
        self.chat_fault = ""  # why the model's template is not served; empty when it is, or when there is none
        chat = self._made_chat(card)
        self.has_chat_template = chat is not None
        limits = PromptLimits(max_bytes=settings.max_prompt_bytes, max_tokens=card.context_length)
        self._renderer = PromptRenderer(self._tokenizer, chat, bos_id=card.bos_id, limits=limits)
        self._pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="text")
        self._places = BoundedSemaphore(settings.max_pending)

    @classmethod
    async def load(cls, card: ModelCard, settings: TextSettings | None = None) -> Self:
        """The same off the event loop."""
        return await asyncio.to_thread(cls, card, settings)

    def _made_chat(self, card: ModelCard) -> Chat | None:
        if not card.chat_template:
            return None
        special_tokens = _special_tokens(card.special_tokens_json)
        try:
            probe(card.chat_template, special_tokens)
            template = ChatTemplate(card.chat_template, special_tokens)
        except TemplateError as error:
            self.chat_fault = str(error)
            return None
        roles = chat_roles(card.chat_template, list(self._tokenizer.control_ids))
        return Chat(template=template, source=card.chat_template, roles=roles)

    async def render(self, prompt: Prompt) -> Int32Column:
        """The tokens of a prompt (headway.v1 ChatPrompt or PartsPrompt). Raises `InvalidPrompt` or `TextBusy`."""
        return await self._in_thread(self._renderer.render, prompt)

    async def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of all of `token_ids` together. Raises `InvalidPrompt` or `TextBusy`."""
        return await self._in_thread(self._detokenize, list(token_ids), skip_special_tokens)

    def _detokenize(self, token_ids: list[int], skip_special_tokens: bool) -> str:
        check_token_ids(token_ids, self._tokenizer.vocab_size, "token_ids")
        return self._detokenizers.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def answer(self, rules: StopRules, *, skip_special_tokens: bool = True) -> AnswerText:
        """The text of one answer, from its first token on."""
        return AnswerText(self._detokenizers.new(skip_special_tokens=skip_special_tokens), rules)

    def stop_rules(
        self,
        *,
        strings: Sequence[str] = (),
        token_ids: Iterable[int] = (),
        min_tokens: int = 0,
        ignore_eos: bool = False,
        include_stop_string: bool = False,
    ) -> StopRules:
        """The rules of one request. Raises ValueError for an empty stop string."""
        ends = frozenset(token_ids) | (frozenset() if ignore_eos else self._eos_ids)
        return StopRules(StopStrings(strings), ends, min_tokens, include_stop_string)

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """`work(*arguments)` in the pool. Cancelled before it starts it never runs; its place is free again either way."""
        if not self._places.acquire(blocking=False):
            raise TextBusy("too many prompts wait to be tokenized; try again soon")
        future = self._pool.submit(work, *arguments)
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Ends the pool; prompts that wait are cancelled."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _special_tokens(special_tokens_json: str) -> dict[str, str]:
    """The names that templates use, such as bos_token, with their text."""
    try:
        document = json.loads(special_tokens_json)
    except (ValueError, RecursionError) as error:
        raise UnusableModel(f"the special tokens are not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UnusableModel("the special tokens are not a JSON object")
    contents = {name: value.get("content") if isinstance(value, dict) else value for name, value in document.items()}
    return {name: content for name, content in contents.items() if isinstance(content, str)}
