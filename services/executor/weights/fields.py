"""Typed, range-checked reads from a dictionary that a stranger wrote (config.json, GGUF metadata)."""

from collections.abc import Collection, Mapping
from typing import Any

from services.executor.weights.errors import MalformedModel, UnsupportedModel

_REQUIRED = object()


class Fields:
    """A mapping read with checks; each error names the field and where it stands."""

    def __init__(self, values: Mapping[str, Any], source: str, prefix: str = "") -> None:
        self._values = values
        self._source = source
        self._prefix = prefix

    def __contains__(self, name: str) -> bool:
        return self._values.get(self._prefix + name) is not None

    def is_null(self, name: str) -> bool:
        """Whether the field is there and null, which is not the same as left out."""
        name = self._prefix + name
        return name in self._values and self._values[name] is None

    def raw(self, name: str) -> Any:
        """The value as it stands, or None."""
        return self._values.get(self._prefix + name)

    def integer(self, name: str, low: int, high: int, default: Any = _REQUIRED) -> int:
        """An integer within [low, high]; `default` where the field is absent or null."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._bad(name, value, "an integer")
        if not low <= value <= high:
            raise self._bad(name, value, f"between {low} and {high}")
        return value

    def number(self, name: str, low: float, high: float, default: Any = _REQUIRED) -> float:
        """A number within [low, high]; `default` where the field is absent or null."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._bad(name, value, "a number")
        if not low <= value <= high:  # which no NaN passes
            raise self._bad(name, value, f"between {low} and {high}")
        return float(value)

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        """A boolean; `default` where the field is absent or null."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self._bad(name, value, "true or false")
        return value

    def text(self, name: str, default: Any = _REQUIRED) -> str:
        """A string; `default` where the field is absent or null."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise self._bad(name, value, "a string")
        return value

    def one_of(self, name: str, known: Collection[str], default: Any = _REQUIRED) -> str:
        """A string among `known`; `default` where the field is absent or null. Raises `UnsupportedModel` for another."""
        value = self.text(name, default)
        if value not in known:
            shown, supported = repr(value[:40]), ", ".join(known)
            raise UnsupportedModel(
                f"{self._source}: {self._prefix}{name} {shown} is not supported; supported: {supported}"
            )
        return value

    def token_ids(self, name: str, vocab_size: int) -> tuple[int, ...]:
        """One token id or a list of them; empty where the field is absent or null."""
        value = self.raw(name)
        if value is None:
            return ()
        ids = value if isinstance(value, list | tuple) else [value]
        if len(ids) > 1024:
            raise self._bad(name, f"a list of {len(ids)}", "at most 1024 token ids")
        for token_id in ids:
            if isinstance(token_id, bool) or not isinstance(token_id, int) or not 0 <= token_id < vocab_size:
                raise self._bad(name, token_id, f"a token id below the vocabulary's size, {vocab_size}")
        return tuple(ids)

    def section(self, name: str) -> "Fields | None":
        """The object under `name`, or None where it is absent or null."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._bad(name, value, "an object")
        return Fields(value, f"{self._source}, {self._prefix}{name}")

    def _value(self, name: str, default: Any) -> Any:
        value = self.raw(name)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise MalformedModel(f"{self._source}: the field {self._prefix}{name} is missing; the model needs it")
        return default

    def _bad(self, name: str, value: object, wanted: str) -> MalformedModel:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return MalformedModel(f"{self._source}: {self._prefix}{name} is {shown}, but must be {wanted}")
