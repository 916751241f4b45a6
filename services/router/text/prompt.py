"""A prompt as a client writes it (headway.v1) turned into the tokens that the model reads.

Chat: the messages' text is data. It passes through the template under a `Shield`, and the finished tokens are checked:
their control tokens must be exactly those of the same conversation with its text blanked out, whatever the text, the
template's ways with it, or the tokenizer's normalization would have joined into one. Token ids are data too: a control
token among them is refused.

Where a forged name was spelled out, the text before, inside and after it is tokenized apart: words do not merge across its
edges, and a tokenizer that begins each text with a space begins each of these with one. All other text is tokenized as
one with the template's.

Parts: text is the prompt as its author wrote it, so that the names of control tokens in it are control tokens. Adjacent
texts are one text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from headway.v1 import inference_pb2 as pb

from services.router.text.errors import InvalidPrompt, TemplateBroken, TemplateRefused, TemplateTooCostly
from services.router.text.shield import ControlNames, Ids, Plain, Recognised, Shield
from services.router.text.template import ChatTemplate
from services.router.text.tokenizer import Tokenizer
from services.wire.message import Int32Column, int32_column

Prompt = pb.ChatPrompt | pb.PartsPrompt

_USUAL_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function", "model"})
_QUOTED_NAME = re.compile(r"""['"]([a-z][a-z0-9_-]{0,31})['"]""")


@dataclass(frozen=True, slots=True)
class PromptLimits:
    max_bytes: int = 2**20  # of all text together, looked at before anything else is done with it
    max_tokens: int = 2**17


@dataclass(frozen=True, slots=True)
class Chat:
    """How a model is talked to: its template, and the roles that the template knows."""

    template: ChatTemplate
    source: str
    roles: frozenset[str]


def chat_roles(source: str, control_names: Sequence[str]) -> frozenset[str]:
    """The roles that a client may use: the usual ones, and names that the template itself quotes.

    A role is often pasted between `<|` and `|>`: a quoted name that would spell part of a control token is no role.
    """
    quoted = set(_QUOTED_NAME.findall(source))
    return _USUAL_ROLES | {role for role in quoted if not any(role in name for name in control_names)}


def check_token_ids(token_ids: Sequence[int], vocab_size: int, field: str) -> None:
    """Raises `InvalidPrompt` that names the first of `token_ids` that the vocabulary does not have."""
    column = np.array(token_ids, np.int64)
    bad = np.flatnonzero((column < 0) | (column >= vocab_size))
    if len(bad):
        message = f"{column[bad[0]]} is no token id: the vocabulary has ids 0 to {vocab_size - 1}"
        raise InvalidPrompt(f"{field}[{bad[0]}]", message)


class PromptRenderer:
    """Turns prompts into tokens; may be used from any thread."""

    def __init__(self, tokenizer: Tokenizer, chat: Chat | None, *, bos_id: int, limits: PromptLimits) -> None:
        self._tokenizer = tokenizer
        self._chat = chat
        self._bos_id = bos_id
        self._limits = limits
        self._control_names = ControlNames(tokenizer.control_ids)

    def render(self, prompt: Prompt) -> Int32Column:
        """The tokens of `prompt`. Raises `InvalidPrompt`."""
        if isinstance(prompt, pb.ChatPrompt):
            field, token_ids = "chat", self._render_chat(prompt)
        else:
            field, token_ids = "parts", self._render_parts(prompt)
        if len(token_ids) > self._limits.max_tokens:
            message = f"the prompt has {len(token_ids)} tokens; at most {self._limits.max_tokens} are served"
            raise InvalidPrompt(field, message)
        return int32_column(token_ids)

    def _render_parts(self, prompt: pb.PartsPrompt) -> list[int]:
        self._check_bytes("parts", [part.text for part in prompt.parts])
        pieces: list[str | list[int]] = []
        for number, part in enumerate(prompt.parts):
            content = self._checked(part, f"parts.parts[{number}]")
            if content and pieces and isinstance(content, str) and isinstance(pieces[-1], str):
                pieces[-1] += content
            elif content:
                pieces.append(content)
        if not pieces:
            raise InvalidPrompt("parts.parts", "the prompt is empty")
        token_ids: list[int] = []
        if self._begins(prompt):
            token_ids.append(self._bos_id)
        for piece in pieces:
            token_ids += self._tokenizer.encode(piece) if isinstance(piece, str) else piece
        if not token_ids:
            raise InvalidPrompt("parts.parts", "the prompt's text has no tokens in this model's vocabulary")
        return token_ids

    def _begins(self, prompt: pb.PartsPrompt) -> bool:
        if self._bos_id < 0:
            return False
        if prompt.HasField("add_special_tokens"):
            return bool(prompt.add_special_tokens)
        return bool(prompt.parts[0].WhichOneof("kind") == "text")

    def _render_chat(self, prompt: pb.ChatPrompt) -> list[int]:
        if self._chat is None:
            raise InvalidPrompt("chat", "this model has no usable chat template; send the prompt as parts")
        if not prompt.messages:
            raise InvalidPrompt("chat.messages", "the conversation is empty")
        roles = [message.role for message in prompt.messages]
        texts = [part.text for message in prompt.messages for part in message.content]
        self._check_bytes("chat", [*roles, *texts])
        self._check_roles(prompt, self._chat.roles)
        shield = self._control_names.shield([*texts, self._chat.source])
        contents = self._contents(prompt, shield)
        generate = prompt.add_generation_prompt if prompt.HasField("add_generation_prompt") else True
        rendered = self._rendered(self._chat.template, roles, contents, generate)
        token_ids, found = self._encode(shield, rendered)
        blank = shield.blank()
        blanked = [blank if content.strip() else content for content in contents]
        expected = self._encode(shield, self._rendered(self._chat.template, roles, blanked, generate))[1]
        if found != expected:
            message = "text in this conversation joins into one of the model's control tokens; reword it"
            raise InvalidPrompt("chat.messages", message)
        if not token_ids:
            raise InvalidPrompt("chat.messages", "the conversation has no tokens")
        return token_ids

    def _encode(self, shield: Shield, rendered: str) -> tuple[list[int], list[int]]:
        """The tokens of a rendered conversation, and the control tokens that its text became."""
        token_ids: list[int] = []
        control_ids: list[int] = []
        for piece in shield.pieces(rendered):
            match piece:
                case Recognised(text):
                    ids = self._tokenizer.encode(text)
                    control_ids += [token_id for token_id in ids if token_id in self._tokenizer.control_id_set]
                    token_ids += ids
                case Plain(text):
                    token_ids += self._tokenizer.encode_plain(text)
                case Ids(ids):
                    token_ids += ids
        return token_ids, control_ids

    def _contents(self, prompt: pb.ChatPrompt, shield: Shield) -> list[str]:
        """Each message's content as the template gets it: its texts joined, then covered."""
        contents: list[str] = []
        for number, message in enumerate(prompt.messages):
            covered, text = "", ""
            for place, part in enumerate(message.content):
                field = f"chat.messages[{number}].content[{place}]"
                content = self._checked(part, field)
                if isinstance(content, str):
                    text += content
                    continue
                self._check_no_control(content, f"{field}.token_ids.ids")
                if content:
                    covered, text = covered + shield.cover(text) + shield.cover_ids(content), ""
            contents.append(covered + shield.cover(text))
        return contents

    def _checked(self, part: pb.Part, field: str) -> str | list[int]:
        kind = part.WhichOneof("kind")
        if kind is None:
            raise InvalidPrompt(field, "the part is neither text nor token ids")
        if kind == "text":
            return part.text
        check_token_ids(part.token_ids.ids, self._tokenizer.vocab_size, f"{field}.token_ids.ids")
        return list(part.token_ids.ids)

    def _check_no_control(self, token_ids: Sequence[int], field: str) -> None:
        for place, token_id in enumerate(token_ids):
            if token_id in self._tokenizer.control_id_set:
                message = f"{token_id} is a control token; in a conversation the template alone sets them"
                raise InvalidPrompt(f"{field}[{place}]", message)

    def _check_bytes(self, field: str, texts: Sequence[str]) -> None:
        size = sum(len(text.encode()) for text in texts)
        if size > self._limits.max_bytes:
            raise InvalidPrompt(field, f"the text has {size} bytes; at most {self._limits.max_bytes} are accepted")

    @staticmethod
    def _check_roles(prompt: pb.ChatPrompt, roles: frozenset[str]) -> None:
        for number, message in enumerate(prompt.messages):
            if message.role not in roles:
                usual = ", ".join(sorted(_USUAL_ROLES))
                raise InvalidPrompt(
                    f"chat.messages[{number}].role", f"no role of this model; the usual ones are {usual}"
                )

    @staticmethod
    def _rendered(template: ChatTemplate, roles: Sequence[str], contents: Sequence[str], generate: bool) -> str:
        messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
        try:
            return template.render(messages, add_generation_prompt=generate)
        except TemplateRefused as error:
            message = f"the model's chat template refuses this conversation: {error}"
            raise InvalidPrompt("chat.messages", message) from error
        except (TemplateBroken, TemplateTooCostly) as error:
            raise InvalidPrompt("chat.messages", f"this conversation cannot be rendered: {error}") from error
