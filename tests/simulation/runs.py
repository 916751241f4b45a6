"""Runs on the virtual clock: what the tests of promises begin with, and what they ask afterwards."""

import random

import pytest

from services.scheduler.answers import Answer
from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from services.wire.execution import Sampling
from services.wire.scheduling import FinishCause
from tests.simulation.strict_engine import POISON, StrictEngine, expected_tokens

ENDLESS = Sampling(temperature=0.0, ignore_eos=True)

in_both = pytest.mark.parametrize("batching", ["continuous", "static"])


def tokens(count: int, seed: int = 0) -> list[int]:
    rng = random.Random(f"{count} {seed}")
    return [rng.randrange(1, POISON) for _ in range(count)]


def driver(engine: StrictEngine | None = None, **settings: int | bool | str) -> Driver:
    made = Driver(CoreSettings(**settings), engine or StrictEngine(), check_integrity=True)
    made.start()
    return made


def is_right(answer: Answer) -> bool:
    """Whether it ended by its length with the tokens of an undisturbed run."""
    submit = answer.submit
    prompt = submit.token_ids[: submit.prompt_length].tolist()
    got = submit.token_ids[submit.prompt_length :].tolist() + answer.token_ids
    finished = answer.finished is not None and answer.finished.cause is FinishCause.LENGTH
    return finished and got == expected_tokens(prompt, submit.max_tokens, submit.seed, submit.sampling)


def ideal(answers: list[Answer]) -> int:
    """Tokens to compute if each is computed once."""
    return sum(len(answer.submit.token_ids) + len(answer.token_ids) - 1 for answer in answers)
