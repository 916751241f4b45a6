"""The engine: step plans in, step results out, over one model on one machine."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from services.executor.batch import Batch, Work, build_batch
from services.executor.kv_cache import BLOCK_SIZE, KvCache, blocks_that_fit
from services.executor.models.decoder import Decoder
from services.executor.numerics import numerics_digest
from services.executor.output import StepOutput, prompt_positions
from services.executor.settings import ExecutorSettings
from services.executor.slots import InvalidPlan, Slots
from services.executor.threads import usable_cpus
from services.executor.weights.load import load_model
from services.executor.weights.store import served_name
from services.wire.execution import (
    GREEDY,
    AdmittedSlot,
    Capacity,
    KvGroup,
    ModelCard,
    Reset,
    StepPlan,
    StepResult,
)
from services.wire.message import int32_column

_LOGIT_ROWS_AT_A_TIME = 64
_KILLED_AT_OUTPUT = 40


class Engine:
    """Owns weights, KV cache and slots. All but the weights is a cache that one admission rebuilds."""

    def __init__(
        self,
        decoder: Decoder,
        card: ModelCard,
        *,
        num_blocks: int,
        max_slots: int,
        max_step_tokens: int,
        kill_token: int = -1,
    ) -> None:
        """`kill_token` is a test hook: a prompt that holds it kills this process at its 40th output token."""
        self.kv_cache = KvCache(decoder.config, num_blocks)
        self._decoder = decoder
        self._card = card
        self._heads_per_kv_head = decoder.config.num_heads // decoder.config.num_kv_heads
        self._most = Reset(max_slots=max_slots, max_step_tokens=max_step_tokens)
        self._kill_token = kill_token
        self.reset(0, self._most)

    def reset(self, session: int, reset: Reset) -> Capacity:  # noqa: ARG002 (frames carry the session; slots do not)
        """Forgets every slot, and says what there is room for: no more than asked for, no more than there is."""
        self._last_plan = 0
        self._max_step_tokens = min(reset.max_step_tokens, self._most.max_step_tokens)
        max_slots = min(reset.max_slots, self._most.max_slots)
        self._slots = Slots(
            max_slots=max_slots,
            num_blocks=self.kv_cache.num_blocks,
            context_length=self._card.context_length,
            vocab_size=self._card.vocab_size,
            eos_ids=tuple(self._card.eos_ids.tolist()),
        )
        group = KvGroup(
            num_blocks=self.kv_cache.num_blocks,
            block_size=BLOCK_SIZE,
            bytes_per_token=self.kv_cache.bytes_per_token,
        )
        return Capacity(groups=(group,), max_slots=max_slots, max_step_tokens=self._max_step_tokens, card=self._card)

    @torch.inference_mode()
    def step(self, plan: StepPlan) -> StepResult:
        """Updates slots, builds the ragged batch, computes it, samples.

        Raises:
            InvalidPlan: the plan contradicts the session so far; nothing but a reset can follow.
        """
        began = time.perf_counter_ns()
        work = self._update(plan)
        updated = time.perf_counter_ns()
        output = StepOutput()
        forwarded = updated
        if work:
            batch = build_batch(work, self._heads_per_kv_head)
            hidden = self._decoder.forward(batch, self.kv_cache)
            forwarded = time.perf_counter_ns()
            self._sample(work, batch, hidden, output)
        sampled = time.perf_counter_ns()
        return output.result(
            plan.plan,
            update_us=(updated - began) // 1000,
            forward_us=(forwarded - updated) // 1000,
            sample_us=(sampled - forwarded) // 1000,
        )

    def warm_up(self) -> None:
        """Generates two tokens, so that the first request finds memory and kernels in place."""
        self.reset(0, self._most)
        admitted = AdmittedSlot(
            slot=0,
            token_ids=int32_column([0]),
            prompt_length=1,
            token_limit=3,
            blocks=int32_column([0]),
            sampling=GREEDY,
        )
        chunk = int32_column([0]), int32_column([1])
        self.step(StepPlan(plan=1, admitted=(admitted,), chunk_slots=chunk[0], chunk_counts=chunk[1]))
        self.step(StepPlan(plan=2, started=int32_column([0])))
        self.reset(0, self._most)

    def _update(self, plan: StepPlan) -> list[Work]:
        """Applies the plan's changes; returns what it computes."""
        if plan.plan != self._last_plan + 1:
            raise InvalidPlan(f"plan {plan.plan} came after plan {self._last_plan}")
        self._last_plan = plan.plan
        self._slots.apply(plan)
        work = [Work(slot, slot.computed, 1) for slot in self._slots.decoding()]
        work += self._chunks(plan)
        if sum(item.count for item in work) > self._max_step_tokens:
            raise InvalidPlan(f"plan {plan.plan} computes more than {self._max_step_tokens} tokens")
        for item in work:
            _check(item)
            self._kill_if_poisoned(item)
            item.slot.computed = item.end
        return work

    def _chunks(self, plan: StepPlan) -> Iterator[Work]:
        seen = set()
        for index, count in zip(plan.chunk_slots.tolist(), plan.chunk_counts.tolist(), strict=True):
            slot = self._slots.get(index)
            if self._slots.is_decoding(index) or index in seen or count < 1:
                raise InvalidPlan(f"slot {index} cannot have a chunk of {count} tokens in plan {plan.plan}")
            seen.add(index)
            if not slot.ended:
                yield Work(slot, slot.computed, count)

    def _sample(self, work: list[Work], batch: Batch, hidden: Tensor, output: StepOutput) -> None:
        for item, first_row in zip(work, batch.first_rows, strict=True):
            wanted = prompt_positions(item)
            for start in range(0, len(wanted), _LOGIT_ROWS_AT_A_TIME):
                positions = wanted[start : start + _LOGIT_ROWS_AT_A_TIME]
                row = first_row + positions.start - 1 - item.start
                logits = self._decoder.logits(hidden[row : row + len(positions)])
                output.add_prompt_logprobs(item.slot, positions.start, logits.numpy())
        last_rows = {
            item.slot: first_row + item.count - 1
            for item, first_row in zip(work, batch.first_rows, strict=True)
            if item.end == item.slot.length and item.slot.may_draw
        }
        if last_rows:
            logits = self._decoder.logits(hidden[list(last_rows.values())])
            output.draw(list(last_rows), logits.numpy())

    def _kill_if_poisoned(self, item: Work) -> None:
        slot = item.slot
        draws = item.end == slot.length and slot.may_draw
        if draws and slot.num_output_tokens == _KILLED_AT_OUTPUT and self._kill_token in slot.prompt:
            os.kill(os.getpid(), signal.SIGKILL)


def _check(item: Work) -> None:
    index = item.slot.admitted.slot
    if item.end > item.slot.length:
        raise InvalidPlan(f"slot {index} is to compute up to token {item.end}, but {item.slot.length} are known")
    if item.end > item.slot.block_count * BLOCK_SIZE:
        raise InvalidPlan(f"slot {index} is to compute up to token {item.end} in {item.slot.block_count} blocks")


def build_engine(settings: ExecutorSettings) -> Engine:
    """Loads the model that `settings` name, warms it up, and returns an engine that is ready for a reset.

    Raises:
        ModelFileError: the model cannot be loaded.
    """
    torch.set_num_threads(settings.threads or usable_cpus())
    model = load_model(Path(settings.model), getattr(torch, settings.dtype), served_name(settings.model))
    tensors, model = dict(model.tensors), replace(model, tensors={})
    config = model.config
    engine = Engine(
        Decoder(config, tensors),
        model.card(numerics_digest=numerics_digest(model.fingerprint, settings.dtype), batch_invariant=True),
        num_blocks=blocks_that_fit(config, settings.kv_pool_tokens, settings.kv_memory_mb),
        max_slots=settings.max_slots,
        max_step_tokens=settings.max_step_tokens,
        kill_token=settings.armed_kill_token,
    )
    engine.warm_up()
    return engine
