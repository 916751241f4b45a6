"""The engine: plans in, results out; what it refuses; and that nothing around a sequence changes its tokens."""

import os
import signal

import numpy as np
import pytest
import torch

from services.executor import engine as engine_module
from services.executor.slots import InvalidPlan
from services.wire.execution import Reset, Sampling, StepPlan
from services.wire.message import float32_column, int32_column
from tests.support.steps import Request, Stepper, admitted, run
from tests.support.tiny_model import tiny_engine

PROMPT = [5, 17, 42, 8, 77, 23, 64, 11, 90, 33, 2, 51, 19, 70, 46, 85, 28, 60]
PENALIZED = Sampling(
    temperature=0.8,
    top_p=0.95,
    repetition_penalty=1.2,
    presence_penalty=0.3,
    frequency_penalty=0.2,
    bias_ids=int32_column([4]),
    bias_values=float32_column([1.5]),
    ignore_eos=True,
)
KINDS = {
    "greedy": Sampling(temperature=0.0, ignore_eos=True),
    "seeded": Sampling(temperature=0.8, ignore_eos=True),
    "penalized": PENALIZED,
}


def outputs(engine, request, **how):
    run(engine, [request], **how)
    return request.outputs


@pytest.fixture(scope="module")
def engine():
    """One engine for all: each test begins with a reset."""
    return tiny_engine()


@pytest.fixture(params=list(KINDS))
def sampling(request):
    return KINDS[request.param]


def test_a_reset_answers_with_what_there_is_room_for(engine):
    """Neither more than asked for nor more than there is."""
    capacity = engine.reset(7, Reset(max_slots=3, max_step_tokens=10_000))
    assert (capacity.max_slots, capacity.max_step_tokens) == (3, 512)
    assert capacity.groups[0].num_blocks == 64
    assert capacity.groups[0].block_size == 16
    assert capacity.groups[0].bytes_per_token == engine._backend.bytes_per_token
    assert capacity.card.name == "tiny"


def test_a_sequence_runs_to_its_limit_and_then_computes_nothing(engine):
    """Each step draws one token; the one that reaches the limit is drawn, and the step after is empty."""
    request = Request(PROMPT, 6, KINDS["greedy"])
    results = run(engine, [request])
    assert len(request.outputs) == 6
    assert [len(result.tokens) for result in results] == [1] * 6 + [0]
    assert [result.plan for result in results] == list(range(1, 8))


def test_a_stop_token_is_emitted_and_ends_the_sequence(engine):
    """The stop token counts as output; the slot stays in the decode set and computes nothing."""
    free = outputs(engine, Request(PROMPT, 12, KINDS["greedy"]))
    stop = free[4]
    length = free.index(stop) + 1
    request = Request(PROMPT, 12, Sampling(temperature=0.0, ignore_eos=True, stop_ids=int32_column([stop])))
    results = run(engine, [request])
    assert request.outputs == free[:length]
    assert results[length - 1].stopped.tolist() == [0]
    assert results[-1].stopped.tolist() == []


def test_min_tokens_keeps_the_stop_token_away(engine):
    """A stop token is not drawn before min_tokens are out."""
    free = outputs(engine, Request(PROMPT, 12, KINDS["greedy"]))
    wanted = Sampling(temperature=0.0, ignore_eos=True, stop_ids=int32_column(sorted(set(free))), min_tokens=5)
    assert len(outputs(engine, Request(PROMPT, 12, wanted))) >= 6
    assert not set(outputs(engine, Request(PROMPT, 5, wanted))) & set(free)


@pytest.mark.parametrize("chunk", [1, 2, 7, 15, 16, 17])
def test_chunking_changes_no_token(engine, sampling, chunk):
    """A prompt in chunks of any size gives the tokens of a whole one."""
    whole = outputs(engine, Request(PROMPT * 3, 8, sampling, seed=3))
    assert outputs(engine, Request(PROMPT * 3, 8, sampling, seed=3), chunk=chunk) == whole


def test_company_changes_no_token(engine, sampling):
    """Six sequences together give what each gives alone, in whatever slot it runs."""
    made = [Request(PROMPT[i:] + PROMPT * i, 8 + i, sampling, seed=i) for i in range(6)]
    alone = [outputs(engine, Request(r.prompt, r.max_tokens, sampling, r.seed)) for r in made]
    run(engine, made)
    assert [request.outputs for request in made] == alone
    reversed_order = [Request(r.prompt, r.max_tokens, sampling, r.seed) for r in reversed(made)]
    run(engine, reversed_order)
    assert [request.outputs for request in reversed(reversed_order)] == alone


def test_threads_change_no_token(engine, sampling):
    """One thread and two give the same tokens and the same logprobs, bit for bit."""
    before = torch.get_num_threads()
    seen = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        wanted = Sampling(temperature=sampling.temperature, logprobs=3)
        results = run(engine, [Request(PROMPT * 10, 8, wanted, seed=1), Request(PROMPT, 8, wanted, seed=2)])
        seen.append([(r.tokens.tolist(), r.logprobs and r.logprobs.top_logprobs.tobytes()) for r in results])
    torch.set_num_threads(before)
    assert seen[0] == seen[1]


def test_a_sequence_resumed_after_any_token_goes_on_with_the_same_ones(engine, sampling):
    """Admitted again with its output so far, a sequence draws what it would have drawn, penalties included."""
    whole = outputs(engine, Request(PROMPT, 10, sampling, seed=9))
    for known in range(1, 10):
        request = Request(PROMPT, 10, sampling, seed=9, known=whole[:known])
        assert outputs(engine, request) == whole[known:]


def test_a_paused_sequence_goes_on_with_the_same_tokens(engine, sampling):
    """A slot that leaves the decode set for a while loses nothing."""
    whole = outputs(engine, Request(PROMPT, 5, sampling, seed=9))
    stepper = Stepper(engine)
    request = Request(PROMPT, 5, sampling, seed=9)
    drawn = [stepper.step(admitted(0, request, 0), chunk_slots=[0], chunk_counts=[len(PROMPT)])]
    drawn += [stepper.step(started=[0]), stepper.step(paused=[0]), stepper.step(), stepper.step(started=[0])]
    drawn += [stepper.step(), stepper.step()]
    assert [token for result in drawn for token in result.tokens.tolist()] == whole
    assert drawn[2].tokens.tolist() == drawn[3].tokens.tolist() == []


def test_a_prefix_that_another_row_fills_in_the_same_step_is_read_right(engine, sampling):
    """A sequence may point into blocks that an earlier one computes in this very step."""
    long = PROMPT * 3
    alone = outputs(engine, Request(long, 4, sampling, seed=2))
    stepper = Stepper(engine)
    first = Request(long[:48], 4, sampling, seed=1)
    second = Request(long, 4, sampling, seed=2)
    shared = admitted(1, second, 0, computed_length=48, blocks=int32_column([0, 1, 2, 50]))
    result = stepper.step(admitted(0, first, 0), shared, chunk_slots=[0, 1], chunk_counts=[48, len(long) - 48])
    tokens = [result.tokens.tolist()[1]]
    result = stepper.step(started=[1])
    while result.tokens.size:
        tokens += result.tokens.tolist()
        result = stepper.step()
    assert tokens == alone


def test_free_blocks_full_of_nan_change_no_token(engine, sampling):
    """What free blocks hold is never read, not even with weight zero."""
    clean = outputs(engine, Request(PROMPT * 2, 20, sampling, seed=4))
    engine._backend.kv_cache.keys.fill_(torch.nan)
    engine._backend.kv_cache.values.fill_(torch.nan)
    assert outputs(engine, Request(PROMPT * 2, 20, sampling, seed=4), chunk=5) == clean
    engine._backend.kv_cache.keys.fill_(torch.inf)
    engine._backend.kv_cache.values.fill_(-torch.inf)
    assert outputs(engine, Request(PROMPT * 2, 20, sampling, seed=4)) == clean


def test_a_limit_of_what_is_known_computes_and_draws_nothing(engine):
    """Prompt logprobs without any output: max_tokens is 0."""
    stepper = Stepper(engine)
    request = Request(PROMPT, 0, Sampling(temperature=0.0, prompt_logprobs=1))
    result = stepper.step(admitted(0, request, 0), chunk_slots=[0], chunk_counts=[len(PROMPT)])
    assert result.tokens.size == 0
    assert result.prompt_logprobs.positions.tolist() == list(range(1, len(PROMPT)))


def test_prompt_logprobs_come_chunk_by_chunk_with_the_same_bits(engine):
    """Each position comes exactly once, whatever the chunks, and output positions never."""
    wanted = Sampling(temperature=0.0, prompt_logprobs=2, ignore_eos=True)

    def rows(chunk):
        results = run(engine, [Request(PROMPT * 5, 3, wanted)], chunk=chunk)
        messages = [result.prompt_logprobs for result in results if result.prompt_logprobs]
        return [
            np.concatenate([getattr(message, name) for message in messages]).tobytes()
            for name in ("positions", "chosen", "ranks", "top_ids", "top_logprobs")
        ]

    whole = rows(512)
    assert np.frombuffer(whole[0], np.int32).tolist() == list(range(1, 90))
    assert rows(1) == rows(7) == rows(16) == whole


def test_logits_that_are_not_finite_fail_their_sequence_alone(engine):
    """A sequence whose own keys are broken fails; its neighbour's tokens stay."""
    good, bad = Request(PROMPT, 6, KINDS["greedy"]), Request(PROMPT[::-1], 6, KINDS["greedy"])
    alone = outputs(engine, Request(PROMPT, 6, KINDS["greedy"]))
    stepper = Stepper(engine)
    counts = [len(PROMPT)] * 2
    result = stepper.step(admitted(0, good, 0), admitted(1, bad, 8), chunk_slots=[0, 1], chunk_counts=counts)
    tokens = [result.tokens.tolist()[0]]
    engine._backend.kv_cache.values[0, :, 8] = torch.nan
    result = stepper.step(started=[0, 1])
    assert (result.slots.tolist(), result.failed.tolist()) == ([0], [1])
    while result.tokens.size:
        tokens += result.tokens.tolist()
        result = stepper.step()
        assert result.failed.tolist() == []
    assert tokens == alone


def test_a_step_without_work_answers_its_plan(engine):
    """Releases alone compute nothing."""
    stepper = Stepper(engine)
    stepper.step(admitted(0, Request(PROMPT, 4), 0))
    result = stepper.step(released=[0])
    assert (result.plan, result.slots.tolist()) == (2, [])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"chunk_slots": [0], "chunk_counts": [19]}, "are known"),
        ({"chunk_slots": [0], "chunk_counts": [0]}, "cannot have a chunk"),
        ({"chunk_slots": [0, 0], "chunk_counts": [1, 1]}, "cannot have a chunk"),
        ({"started": [0], "chunk_slots": [0], "chunk_counts": [1]}, "cannot have a chunk"),
        ({"chunk_slots": [1], "chunk_counts": [18]}, "in 1 blocks"),
        ({"chunk_slots": [2], "chunk_counts": [1]}, "holds no sequence"),
    ],
)
def test_a_plan_that_contradicts_the_session_is_refused(engine, columns, words):
    """Chunks past the known tokens or the blocks, empty, doubled, or of a decoding slot break the session."""
    stepper = Stepper(engine)
    request = Request(PROMPT, 4)
    with pytest.raises(InvalidPlan, match=words):
        stepper.step(admitted(0, request, 0), admitted(1, request, 0, blocks=int32_column([5])), **columns)


def test_a_position_that_the_back_end_does_not_have_is_refused():
    """A block that is given twice leads past no table: tables end where the pool does."""
    engine = tiny_engine(num_blocks=2)
    request = Request([5] * 33, 4)
    slot = admitted(0, request, 0, blocks=int32_column([0, 1, 1]))
    with pytest.raises(InvalidPlan, match="past context or pool, which end at 32"):
        Stepper(engine).step(slot, chunk_slots=[0], chunk_counts=[33])
    Stepper(engine).step(slot, chunk_slots=[0], chunk_counts=[32])


def test_plans_are_numbered_one_by_one(engine):
    """A plan that was lost or came twice is noticed."""
    stepper = Stepper(engine)
    stepper.step()
    with pytest.raises(InvalidPlan, match="came after"):
        engine.step(StepPlan(plan=3))


def test_a_step_of_more_tokens_than_agreed_is_refused(engine):
    """The reset's token budget holds."""
    engine.reset(1, Reset(max_slots=2, max_step_tokens=10))
    slot = admitted(0, Request(PROMPT, 4), 0)
    with pytest.raises(InvalidPlan, match="more than 10 tokens"):
        engine.step(StepPlan(plan=1, admitted=(slot,), chunk_slots=int32_column([0]), chunk_counts=int32_column([11])))


def test_a_poisonous_prompt_kills_the_process_at_its_output_40(monkeypatch):
    """The test hook strikes in the step that draws output 40 of a prompt with the token, and no other."""
    killed = []

    def kill(pid, sign):
        killed.append((pid, sign))
        raise SystemExit

    monkeypatch.setattr(engine_module.os, "kill", kill)
    engine = tiny_engine(kill_token=PROMPT[3])
    innocent = Request([token for token in PROMPT if token != PROMPT[3]], 50, KINDS["greedy"])
    run(engine, [innocent])
    assert not killed
    poisonous = Request(PROMPT, 50, KINDS["greedy"])
    with pytest.raises(SystemExit):
        run(engine, [poisonous])
    assert killed == [(os.getpid(), signal.SIGKILL)]
    assert len(poisonous.outputs) == 40


def test_warming_up_leaves_no_trace(engine):
    """After the warm-up all slots are free, and plans begin at 1."""
    engine.warm_up()
    stepper = Stepper(engine)
    assert stepper.step(admitted(0, Request(PROMPT, 4), 0)).plan == 1
