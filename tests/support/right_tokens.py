"""What the right-token tests share: the default model loaded once, 24 prompts, and what each prompt's answers must be."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer

from kernels.cpu import library
from kernels.cpu.library import DType
from services.executor.backends.backend import Backend
from services.executor.backends.cpu import CpuBackend, pack_model
from services.executor.backends.reference import ReferenceBackend
from services.executor.backends.reference_decoder import Decoder
from services.executor.blocks import BLOCK_SIZE
from services.executor.engine import Engine
from services.executor.threads import usable_cpus
from services.executor.weights.load import open_model
from services.executor.weights.loaded_model import LoadedModel
from services.scheduler.answers import Answer
from services.scheduler.core.settings import CoreSettings
from services.scheduler.driver import Driver
from services.wire.execution import GREEDY, Sampling
from tests.support.oracle import Continuation, Oracle
from tests.support.prompts import prompts

MAX_TOKENS = 12
SEEDED = Sampling(temperature=0.8)
POOL_TOKENS = 8192

Prepare = Callable[[Driver, dict[int, list[Answer]]], None]
Way = tuple[bool, Callable[[int], Backend]]
"""Whether greedy answers are the oracle's, and a back end of so many blocks."""


def _reference(model: LoadedModel, _: Path) -> Way:
    decoder = Decoder(model.config, dict(model.tensors))

    def backend(num_blocks: int) -> ReferenceBackend:
        made = ReferenceBackend(decoder, num_blocks)
        made.kv_cache.keys.fill_(torch.nan)
        made.kv_cache.values.fill_(torch.nan)
        return made

    return True, backend


def _cpu(dtype: DType, *, is_exact: bool) -> Callable[[LoadedModel, Path], Way]:
    def way(_: LoadedModel, path: Path) -> Way:
        cpu = library.load()
        cpu.set_threads(usable_cpus())
        with open_model(path) as opened:
            model = pack_model(cpu, opened.description.config, opened.weights, dtype)

        def backend(num_blocks: int) -> CpuBackend:
            made = CpuBackend(model, num_blocks, cpu)
            made.kv_cache.keys.fill(0xFF)  # NaN in float32 and in bfloat16
            made.kv_cache.values.fill(0xFF)
            return made

        return is_exact, backend

    return way


WAYS = {
    "reference": _reference,
    "cpu float32": _cpu("float32", is_exact=True),
    "cpu bfloat16": _cpu("bfloat16", is_exact=False),
    "cpu quantized": _cpu("auto", is_exact=False),
}
"""Back ends and precisions, with free KV blocks full of NaN."""


class RightTokens:
    """The model, and for each prompt (by index) the oracle's greedy answer and the seeded answer of a lone run."""

    def __init__(self, model: LoadedModel, path: Path, cache: Any, way: str) -> None:
        """`way` is a key of `WAYS`; `cache` is pytest's, where the oracle's answers are kept from one run to the next."""
        self.way = way
        torch.set_num_threads(usable_cpus())
        self.model = model
        self.is_exact, self._backend = WAYS[way](model, path)
        tokenizer = Tokenizer.from_str(self.model.tokenizer_json)
        self.prompts = prompts(lambda text: tokenizer.encode(text).ids)
        self._cache = cache
        self._lone_answers: dict[int, list[list[int]]] = {}

    @cached_property
    def _oracle(self) -> Oracle:
        return Oracle(self.model)

    def expected(self, index: int) -> Continuation:
        """The oracle's greedy answer to prompt `index`."""
        parts = [self.model.fingerprint, transformers.__version__, torch.__version__, MAX_TOKENS, self.prompts[index]]
        key = "headway/oracle-" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
        if (found := self._cache.get(key, None)) is None:
            found = dataclasses.asdict(self._oracle.continuation(self.prompts[index], MAX_TOKENS))
            self._cache.set(key, found)
        return Continuation(**found)

    def lone_answers(self, index: int) -> list[list[int]]:
        """The tokens of the greedy and of the seeded answer to prompt `index` when nothing else is served."""
        if index not in self._lone_answers:
            answers = self.serve([index])
            self._lone_answers[index] = [answer.token_ids for answer in answers[index]]
        return self._lone_answers[index]

    def engine(self, num_blocks: int = POOL_TOKENS // BLOCK_SIZE) -> Engine:
        """An engine on the shared weights, whose free blocks are full of NaN."""
        card = self.model.card(numerics_digest="00", batch_invariant=True)
        return Engine(self._backend(num_blocks), card, max_slots=64, max_step_tokens=512)

    def driver(self, num_blocks: int = POOL_TOKENS // BLOCK_SIZE, **settings: Any) -> Driver:
        """A driver that has started, on such an engine; `settings` are those of the core."""
        driver = Driver(CoreSettings(**settings), self.engine(num_blocks), check_integrity=True)
        driver.start()
        return driver

    def submit(self, driver: Driver, indices: Iterable[int]) -> dict[int, list[Answer]]:
        """Hands in each prompt twice, greedy and seeded."""
        return {
            index: [
                driver.submit(self.prompts[index], sampling=sampling, max_tokens=MAX_TOKENS, seed=1000 + index)
                for sampling in (GREEDY, SEEDED)
            ]
            for index in indices
        }

    def serve(self, indices: Iterable[int], prepare: Prepare | None = None, **how: Any) -> dict[int, list[Answer]]:
        """Serves each prompt greedy and seeded, all handed in at once; `prepare` may plan trouble before they run."""
        driver = self.driver(**how)
        answers = self.submit(driver, indices)
        if prepare:
            prepare(driver, answers)
        driver.run()
        return answers

    def check(self, answers: dict[int, Sequence[Answer]]) -> None:
        """Greedy answers are the oracle's, where weights are not rounded; seeded ones, and else all, those of lone runs."""
        for index, (greedy, seeded) in answers.items():
            if self.is_exact:
                assert greedy.token_ids == self.expected(index).tokens, f"greedy answer to prompt {index}"
            given = [greedy.token_ids, seeded.token_ids]
            assert given == self.lone_answers(index), f"greedy and seeded answers to prompt {index}"

    def blocks_for(self, index: int) -> int:
        """Blocks that one answer to prompt `index` needs at its longest."""
        return -(-(len(self.prompts[index]) + MAX_TOKENS) // BLOCK_SIZE)
