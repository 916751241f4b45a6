"""A workload: a seeded list of requests, and how they are sent. The same seed gives every target the same requests."""

import math
import random
from dataclasses import dataclass, replace

from services.cli.bench.arrivals import arrivals
from services.cli.bench.lengths import Lengths
from services.cli.bench.words import WORDS
from services.runtime.lifecycle import BadSetting

NUM_WORDS = len(WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. Its prompt is numbers below NUM_WORDS, each a byte, sent as words or as token ids.

    A later turn of a conversation holds only what is new: the sender puts all that was said before in front of it, with
    the answers that the target really gave.
    """

    index: int
    prompt: bytes
    output_tokens: int  # asked for: least and most at once
    arrival_s: float = 0.0  # from the start of the run; of open arrivals alone
    conversation: int | None = None
    turn: int = 0
    shared_tokens: int = 0  # at the prompt's beginning, the same as in other requests

    @property
    def text(self) -> str:
        """The prompt as words with a space between them."""
        return text_of(self.prompt)

    def token_ids(self, first_id: int) -> list[int]:
        """The prompt as token ids from `first_id` on."""
        return [first_id + word for word in self.prompt]


def text_of(prompt: bytes) -> str:
    """Words of a prompt."""
    return " ".join(WORDS[word] for word in prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When requests are sent. Exactly one of the first three is above zero.

    `concurrency` is a closed loop: so many requests at any time. `users` are people: each waits for the answer, thinks
    `think_s`, goes on. `rate_per_s` is open: arrivals do not wait for answers.
    """

    concurrency: int = 0
    users: int = 0
    rate_per_s: float = 0.0
    think_s: float = 0.0
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if sum((self.concurrency > 0, self.users > 0, self.rate_per_s > 0)) != 1 or not math.isfinite(self.rate_per_s):
            raise BadSetting("give exactly one of concurrency, users and rate, above zero")
        if not self.burstiness > 0:
            raise BadSetting("burstiness must be above zero: 1 is Poisson, less is burstier")
        if not 0 <= self.think_s < math.inf:
            raise BadSetting("think time cannot be less than nothing, or without end")

    def __str__(self) -> str:
        if self.rate_per_s > 0:
            law = "Poisson" if self.burstiness == 1 else f"Gamma, burstiness {self.burstiness:g}"
            return f"open, {self.rate_per_s:g} requests/s, {law}"
        if self.users > 0:
            return f"{self.users} users who think {self.think_s:g} s"
        return f"closed loop, {self.concurrency} at a time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a generated workload is made of."""

    name: str
    num_requests: int
    input_lengths: Lengths
    output_lengths: Lengths
    pace: Pace
    shared_prefix_tokens: int = 0  # the same in all requests, before their own input
    turns: int = 1  # num_requests / turns conversations
    turn_lengths: Lengths | None = None  # of what is said after the first turn; None: as the first

    def __post_init__(self) -> None:
        if self.num_requests < 1:
            raise BadSetting("a run needs at least one request")
        if self.turns < 1 or self.num_requests % self.turns:
            raise BadSetting(f"{self.num_requests} requests are no whole number of conversations of {self.turns} turns")
        if self.turns > 1 and self.pace.rate_per_s > 0:
            raise BadSetting("a turn waits for the answer before it: conversations need --users or --concurrency")
        if self.shared_prefix_tokens < 0:
            raise BadSetting("a shared prefix cannot be shorter than nothing")

    def at_rate(self, rate_per_s: float, duration_s: float) -> "Shape":
        """The same kind of requests, arriving open for `duration_s`, each for itself."""
        pace = Pace(rate_per_s=rate_per_s, burstiness=self.pace.burstiness)
        return replace(self, pace=pace, num_requests=max(round(rate_per_s * duration_s), 1), turns=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests, and when they are sent."""

    name: str
    pace: Pace
    seed: int
    repeat: int
    requests: tuple[Request, ...]

    @property
    def conversations(self) -> list[list[Request]]:
        """Requests in the order in which one person sends them: the turns of each conversation, or single requests."""
        by_conversation: dict[int, list[Request]] = {}
        for request in self.requests:
            key = -1 - request.index if request.conversation is None else request.conversation
            by_conversation.setdefault(key, []).append(request)
        return list(by_conversation.values())


def generate(shape: Shape, seed: int, repeat: int = 0) -> Workload:
    """Draws the requests of one repeat.

    Each repeat draws anew, and the words of each workload and pace are its own: no run finds in the server's prefix cache
    what another has left there, unless it is the same run again.
    """

    def stream(what: str) -> random.Random:  # lengths do not change when only the arrivals' law does
        return random.Random(f"{seed} {repeat} {what}")  # noqa: S311 - a benchmark's dice

    pace = shape.pace
    own = f"{shape.name} {shape.num_requests} {pace.concurrency} {pace.users} {pace.rate_per_s:g}"
    words, lengths = stream(f"words {own}"), stream("lengths")
    prefix = draw_words(words, shape.shared_prefix_tokens)
    arrivals_s = [0.0] * shape.num_requests
    if pace.rate_per_s > 0:
        arrivals_s = arrivals(shape.num_requests, pace.rate_per_s, pace.burstiness, stream("arrivals"))
    requests = []
    for index, arrival_s in enumerate(arrivals_s):
        turn = index % shape.turns
        input_lengths = shape.turn_lengths if turn and shape.turn_lengths else shape.input_lengths
        said = draw_words(words, input_lengths.draw(lengths))
        requests.append(
            Request(
                index=index,
                prompt=said if turn else prefix + said,
                output_tokens=shape.output_lengths.draw(lengths),
                arrival_s=arrival_s,
                conversation=index // shape.turns if shape.turns > 1 else None,
                turn=turn,
                shared_tokens=0 if turn else len(prefix),
            )
        )
    return Workload(name=shape.name, pace=pace, seed=seed, repeat=repeat, requests=tuple(requests))


def draw_words(rng: random.Random, count: int) -> bytes:
    """The numbers of `count` words."""
    return rng.randbytes(count)
