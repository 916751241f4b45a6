"""What can go wrong with text, one class per cause.

TextError
+-- InvalidPrompt     the client's: INVALID_ARGUMENT, with the field that is wrong
+-- TextBusy          nobody's: RESOURCE_EXHAUSTED, try again soon
+-- UnusableModel     the model's owner's: the card cannot be served
+-- TemplateError     a chat template did not render
    +-- TemplateRefused    it called raise_exception: the conversation is not one that it knows
    +-- TemplateTooCostly  it used up its allowance of time, work or output
    +-- TemplateBroken     it is no valid template, or fails on valid conversations
"""


class TextError(Exception):
    """Base of all that this package raises on purpose."""


class InvalidPrompt(TextError):
    """The prompt cannot be tokenized as it is; `field` is its path inside the request."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class TextBusy(TextError):
    """More prompts wait to be tokenized than the router is willing to hold."""


class UnusableModel(TextError):
    """A model card whose tokenizer cannot be used."""


class TemplateError(TextError):
    """A chat template did not render."""


class TemplateRefused(TemplateError):
    """The template itself refused the conversation; the message is the template's."""


class TemplateTooCostly(TemplateError):
    """The template used up its allowance."""


class TemplateBroken(TemplateError):
    """The template is not valid, or fails where it should not."""
