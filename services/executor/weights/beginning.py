"""The token that a tokenizer puts before each text. Needs neither torch nor numpy.

Only the tokenizer's post-processor says so. A config's `bos_token_id` is the name of a token, used or not, and
`add_bos_token` of a tokenizer_config.json does not count where there is a tokenizer.json.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from services.executor.weights.errors import MalformedModel
from services.executor.weights.json_file import parse_object

NONE = -1


def beginning_id(tokenizer_json: str, vocab_size: int) -> int:
    """The id of the token that the tokenizer (JSON of the `tokenizers` library) begins a text with, or `NONE`.

    Raises:
        MalformedModel: it begins a text with what is no token of the model.
    """
    document = parse_object(tokenizer_json, "the tokenizer")
    for processor in _flat(document.get("post_processor")):
        found = _first(processor)
        if found is None:
            continue
        if type(found) is not int or not 0 <= found < vocab_size:
            raise MalformedModel(
                f"the tokenizer begins a text with {str(found)[:40]!r}, which is no token of the model"
            )
        return found
    return NONE


def _flat(processor: Any) -> Iterator[Mapping[str, Any]]:
    """The post-processors in the order of their use: a `Sequence` is its members."""
    pending = [processor]
    while pending:
        match pending.pop():
            case {"type": "Sequence", "processors": list(members)}:
                pending += reversed(members)
            case dict(single):
                yield single


def _first(processor: Mapping[str, Any]) -> Any:
    """What one post-processor puts before a text, as the file has it; None for nothing."""
    match processor:
        case {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": name}}, *_]}:
            return _id_of(processor, name)
        case {"type": "BertProcessing" | "RobertaProcessing", "cls": [_, token_id]}:
            return token_id
    return None


def _id_of(template: Mapping[str, Any], name: Any) -> Any:
    """The first of the ids that a template's token stands for; the token itself where it stands for none."""
    known = template.get("special_tokens")
    match known.get(str(name)) if isinstance(known, dict) else None:
        case {"ids": [first, *_]}:
            return first
    return name
