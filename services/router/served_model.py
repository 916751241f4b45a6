"""A served model: its card, and what makes text of its tokens and tokens of text."""

from collections import OrderedDict
from dataclasses import dataclass

from headway.v1 import inference_pb2 as api

from services.router.text.errors import InvalidPrompt, TextBusy, UnusableModel
from services.router.text.text_model import TextModel, TextSettings
from services.runtime.errors import Refusal, exhausted, internal, invalid_field
from services.runtime.logging import get_logger
from services.wire.execution import ModelCard
from services.wire.message import Int32Column

_MAX_MODELS = 4  # remembered, so that a scheduler that comes back with a known model is of use at once
_BUSY_PAUSE_S = 0.5

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One fingerprint and numerics digest; those of one fingerprint share their text."""

    card: ModelCard
    text: TextModel

    async def render(self, request: api.GenerateRequest | api.TokenizeRequest) -> Int32Column:
        """The tokens of the request's prompt, made off the event loop. Raises `Refusal`."""
        try:
            return await self.text.render(request.chat if request.WhichOneof("prompt") == "chat" else request.parts)
        except (InvalidPrompt, TextBusy, UnusableModel) as error:
            raise self._refusal_of(error) from error

    async def detokenize(self, request: api.DetokenizeRequest) -> str:
        """The text of the request's tokens. Raises `Refusal`."""
        skip = request.skip_special_tokens if request.HasField("skip_special_tokens") else True
        try:
            return await self.text.detokenize(request.token_ids, skip_special_tokens=skip)
        except (InvalidPrompt, TextBusy, UnusableModel) as error:
            raise self._refusal_of(error) from error

    def _refusal_of(self, error: InvalidPrompt | TextBusy | UnusableModel) -> Refusal:
        if isinstance(error, InvalidPrompt):
            return invalid_field(error.field, error.message)
        if isinstance(error, TextBusy):
            return exhausted(str(error), "TOKENIZERS_BUSY", _BUSY_PAUSE_S)
        # The model's owner's fault, and its words may quote the client's text: neither is told to the other.
        log.error("the model's tokenizer failed on a request", model=self.card.name)
        return internal()


class ModelCache:
    """The models that schedulers have spoken of lately."""

    def __init__(self, max_prompt_bytes: int) -> None:
        self._text_settings = TextSettings(max_prompt_bytes=max_prompt_bytes)
        self._models: OrderedDict[tuple[str, str], ServedModel] = OrderedDict()

    def find(self, fingerprint: str, numerics_digest: str) -> ServedModel | None:
        return self._models.get((fingerprint, numerics_digest))

    async def get(self, card: ModelCard) -> ServedModel:
        """The model of `card`, made in a thread where it is new. Raises `UnusableModel`."""
        known = self.find(card.fingerprint, card.numerics_digest)
        if known is not None:
            return known
        texts = (model.text for model in self._models.values() if model.card.fingerprint == card.fingerprint)
        text = next(texts, None) or await TextModel.load(card, self._text_settings)
        if text.chat_fault:
            log.warning("chat template is not served", model=card.name, why=text.chat_fault)
        model = self._models[card.fingerprint, card.numerics_digest] = ServedModel(card, text)
        while len(self._models) > _MAX_MODELS:
            # Not closed: requests may be at work with it; its threads end with its last user.
            self._models.popitem(last=False)
        return model
