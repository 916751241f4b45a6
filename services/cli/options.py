"""What several client commands share: how a server is reached, and how an answer is drawn."""

from dataclasses import dataclass

from cyclopts import Parameter
from headway.client import Client, Params, RetryPolicy, Unavailable

from services.cli.console import Failed

_FIRST_CONTACT = RetryPolicy(max_attempts=4)


def connect(address: str) -> Client:
    """A client of the server at `address`. A server that is not there is told soon; one that goes away later is waited for."""
    with Client(address, retry=_FIRST_CONTACT) as client:
        try:
            client.model()
        except Unavailable as error:
            advice = "; start one with: headway serve" if str(error) == f"no server at {address}" else ""
            raise Failed(f"{error}{advice}") from None
    return Client(address)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """How the answer is drawn.

    Attributes:
        max_tokens: The most tokens of the answer.
        temperature: 0 is greedy.
        top_p: Draw from the fewest tokens that together are this likely.
        top_k: Draw from this many likeliest tokens.
        seed: The same seed gives the same answer.
        stop: End the answer before this text; may be given several times.
        model: Which model, where several are served.
        timeout_s: Give up after this many seconds.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    model: str = ""
    timeout_s: float | None = None

    def params(self) -> Params:
        """What of this was given."""
        params: Params = {"stop": self.stop, "model": self.model}
        if self.max_tokens is not None:
            params["max_tokens"] = self.max_tokens
        if self.temperature is not None:
            params["temperature"] = self.temperature
        if self.top_p is not None:
            params["top_p"] = self.top_p
        if self.top_k is not None:
            params["top_k"] = self.top_k
        if self.seed is not None:
            params["seed"] = self.seed
        return params


DEFAULT_SAMPLING = SamplingOptions()
