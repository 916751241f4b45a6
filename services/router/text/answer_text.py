"""The text of one answer: detokenizer and stop strings joined, fed with tokens as they come."""

from collections.abc import Iterable
from dataclasses import dataclass

from services.router.text.detokenizer import Detokenizer
from services.router.text.stop_strings import StopMatch, StopScanner, StopStrings


@dataclass(frozen=True, slots=True)
class StopRules:
    """What ends the text of an answer; made once for all answers of a request."""

    strings: StopStrings
    token_ids: frozenset[int] = frozenset()  # end of sequence (unless ignored) and the request's own
    min_tokens: int = 0  # a stop string that fewer tokens complete is text
    include_stop_string: bool = False


@dataclass(frozen=True, slots=True)
class AnswerUpdate:
    """What some tokens did to an answer."""

    text: str = ""  # what the text grew by
    accepted: int = 0  # how many of the tokens belong to the answer: all, or up to the one that ended it
    stop_string: str | None = None
    stop_token_id: int | None = None

    @property
    def ended(self) -> bool:
        """The answer has ended: further tokens are not its."""
        return self.stop_string is not None or self.stop_token_id is not None


class AnswerText:
    """One answer. Its state is a function of the tokens pushed, not of how they were grouped into calls."""

    def __init__(self, detokenizer: Detokenizer, rules: StopRules) -> None:
        self._detokenizer = detokenizer
        self._rules = rules
        self._scanner = StopScanner(rules.strings, include_stop_string=rules.include_stop_string)
        self.num_tokens = 0  # accepted so far
        self._ended = False

    def push(self, token_ids: Iterable[int]) -> AnswerUpdate:
        """Takes tokens, in order. After the end of the answer none is accepted."""
        given: list[str] = []
        accepted = 0
        for token_id in token_ids:
            if self._ended:
                break
            accepted += 1
            self.num_tokens += 1
            if token_id in self._rules.token_ids:
                return self._end_by_token(token_id, given, accepted)
            found = self._scan(self._detokenizer.push(token_id))
            if isinstance(found, StopMatch):
                self._ended = True
                return AnswerUpdate("".join(given) + found.text, accepted, stop_string=found.string)
            given.append(found)
        return AnswerUpdate("".join(given), accepted)

    def prime(self, token_ids: Iterable[int]) -> AnswerUpdate:
        """Takes tokens whose text the client already has: the same as `push`, with that text left out."""
        update = self.push(token_ids)
        return AnswerUpdate("", update.accepted, update.stop_string, update.stop_token_id)

    def finish(self) -> AnswerUpdate:
        """Ends an answer that has reached its length: gives out what was held back, which may complete a stop string."""
        if self._ended:
            return AnswerUpdate()
        self._ended = True
        found = self._scan(self._detokenizer.finish())
        if isinstance(found, StopMatch):
            return AnswerUpdate(found.text, stop_string=found.string)
        return AnswerUpdate(found + self._scanner.finish())

    def _end_by_token(self, token_id: int, given: list[str], accepted: int) -> AnswerUpdate:
        """A stop token has no text of its own; what was held back before it has."""
        rest = self.finish()
        text = "".join(given) + rest.text
        if rest.stop_string is not None:
            return AnswerUpdate(text, accepted, stop_string=rest.stop_string)
        return AnswerUpdate(text, accepted, stop_token_id=token_id)

    def _scan(self, text: str) -> str | StopMatch:
        if not text or not self._rules.strings:
            return text
        return self._scanner.push(text, heed=self.num_tokens >= self._rules.min_tokens)
