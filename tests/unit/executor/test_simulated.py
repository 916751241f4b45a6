"""The simulated executor: right plans are answered by the script, wrong ones are found."""

import pytest

from services.executor.settings import ExecutorSettings
from services.executor.simulated import BrokenPlan, SimulatedExecutor, SimulatedModel, simulated_model
from services.executor.simulated_card import IM_END_ID
from services.wire.execution import AdmittedSlot, Reset, Sampling, StepPlan
from services.wire.message import int32_column

_RESET = Reset(max_slots=8, max_step_tokens=64)


def _executor(**options):
    options = {"num_blocks": 16, "script": "echo", **options}
    executor = SimulatedExecutor(SimulatedModel(**options))
    executor.reset(1, _RESET)
    return executor


def _admit(*, slot=0, text=b"hello", blocks=(3,), limit=32, computed=0, known=b"", **sampling):
    return AdmittedSlot(
        slot=slot,
        token_ids=int32_column([*text, *known]),
        prompt_length=len(text),
        computed_length=computed,
        token_limit=limit,
        blocks=int32_column(blocks),
        sampling=Sampling(**sampling),
    )


def _plan(number, **columns):
    arrays = {name: value if name == "admitted" else int32_column(value) for name, value in columns.items()}
    return StepPlan(plan=number, **arrays)


def _run(executor, steps, first=1):
    """Decodes by plans in which nothing changes; returns the tokens."""
    return [executor.step(_plan(number)).tokens.tolist() for number in range(first, first + steps)]


def test_a_prompt_is_answered_and_its_slot_stops_by_itself():
    """Prefill draws the first token, each step one more, and after the end token nothing."""
    executor = _executor()
    first = executor.step(_plan(1, admitted=(_admit(),), chunk_slots=[0], chunk_counts=[5]))
    assert first.tokens.tolist() == [ord("h")]
    executor.step(_plan(2, started=[0]))
    tokens = _run(executor, 6, first=3)
    assert tokens == [[ord("l")], [ord("l")], [ord("o")], [IM_END_ID], [], []]


def test_chunks_draw_only_at_the_end_of_the_known_tokens():
    """A prompt computed in pieces draws one token, with its last piece."""
    executor = _executor()
    assert executor.step(_plan(1, admitted=(_admit(),), chunk_slots=[0], chunk_counts=[2])).slots.size == 0
    result = executor.step(_plan(2, chunk_slots=[0], chunk_counts=[3]))
    assert (result.slots.tolist(), result.tokens.tolist()) == ([0], [ord("h")])


def test_a_recomputed_sequence_goes_on_with_the_same_tokens():
    """Admitted again with the accepted tokens, the next token is the one that was due."""
    executor = _executor()
    result = executor.step(_plan(1, admitted=(_admit(known=b"hel"),), chunk_slots=[0], chunk_counts=[8]))
    assert result.tokens.tolist() == [ord("l")]


def test_a_limit_ends_a_slot():
    """The token that reaches the limit is drawn, none after it, and it is no stop token."""
    executor = _executor()
    result = executor.step(_plan(1, admitted=(_admit(limit=6),), chunk_slots=[0], chunk_counts=[5]))
    assert (result.tokens.size, result.stopped.size) == (1, 0)
    assert executor.step(_plan(2, started=[0])).tokens.size == 0


def test_no_room_for_a_token_draws_none():
    """max_tokens 0 computes the prompt and draws nothing."""
    executor = _executor()
    admitted = _admit(limit=5, prompt_logprobs=1)
    result = executor.step(_plan(1, admitted=(admitted,), chunk_slots=[0], chunk_counts=[5]))
    assert result.tokens.size == 0
    assert result.prompt_logprobs.positions.tolist() == [1, 2, 3, 4]


def test_prompt_logprobs_come_chunk_by_chunk():
    """Each chunk brings the rows of the tokens that it predicts, none twice, none for position 0."""
    executor = _executor()
    admitted = _admit(prompt_logprobs=0, logprobs=2)
    first = executor.step(_plan(1, admitted=(admitted,), chunk_slots=[0], chunk_counts=[2]))
    second = executor.step(_plan(2, chunk_slots=[0], chunk_counts=[3]))
    assert first.prompt_logprobs.positions.tolist() == [1, 2]
    assert second.prompt_logprobs.positions.tolist() == [3, 4]
    assert second.logprobs.positions.tolist() == [5]
    assert second.logprobs.top_counts.tolist() == [2]


def test_a_request_that_forbids_everything_fails_alone():
    """A slot with no token left is reported as failed; its neighbour goes on."""
    executor = _executor()
    nothing = _admit(slot=0, allowed_ids=int32_column([1]), banned_ids=int32_column([1]))
    neighbour = _admit(slot=1, blocks=(4,))
    result = executor.step(_plan(1, admitted=(nothing, neighbour), chunk_slots=[0, 1], chunk_counts=[5, 5]))
    assert result.failed.tolist() == [0]
    assert result.slots.tolist() == [1]


def test_a_stop_id_is_reported():
    """A stop token is emitted and named."""
    executor = _executor()
    admitted = _admit(stop_ids=int32_column([ord("h")]))
    result = executor.step(_plan(1, admitted=(admitted,), chunk_slots=[0], chunk_counts=[5]))
    assert result.stopped.tolist() == [0]


def test_a_prefix_that_the_same_step_fills_may_be_used():
    """Two sequences with a common first block: the second may skip it in the step that computes it."""
    executor = _executor()
    text = b"x" * 20
    first = _admit(slot=0, text=text, blocks=(1, 2), limit=40)
    second = _admit(slot=1, text=text, blocks=(1, 3), limit=40, computed=16)
    result = executor.step(_plan(1, admitted=(first, second), chunk_slots=[0, 1], chunk_counts=[20, 4]))
    assert result.slots.tolist() == [0, 1]


def test_a_reset_forgets_everything():
    """After a reset slots are free, plans start at 1, and no block holds anything."""
    executor = _executor()
    executor.step(_plan(1, admitted=(_admit(text=b"x" * 17, blocks=(0, 1)),), chunk_slots=[0], chunk_counts=[17]))
    executor.reset(2, _RESET)
    hit = _admit(text=b"x" * 17, blocks=(0, 1), computed=16)
    with pytest.raises(BrokenPlan, match="do not hold"):
        executor.step(_plan(1, admitted=(hit,), chunk_slots=[0], chunk_counts=[1]))


_PREFILLED = {"admitted": (_admit(),), "chunk_slots": [0], "chunk_counts": [5]}
_WRONG = {
    "a plan number is skipped": [_plan(2)],
    "an unknown slot is released": [_plan(1, released=[3])],
    "a taken slot is admitted": [_plan(1, **_PREFILLED), _plan(2, admitted=(_admit(blocks=(4,)),))],
    "a slot beyond the last": [_plan(1, admitted=(_admit(slot=8),))],
    "a block beyond the pool": [_plan(1, admitted=(_admit(blocks=(16,)),))],
    "a negative block": [_plan(1, **_PREFILLED), _plan(2, append_slots=[0], append_blocks=[-1])],
    "more blocks than the limit needs": [_plan(1, **_PREFILLED), _plan(2, append_slots=[0, 0], append_blocks=[4, 5])],
    "too few blocks": [_plan(1, admitted=(_admit(blocks=()),), chunk_slots=[0], chunk_counts=[5])],
    "a chunk beyond the known tokens": [_plan(1, admitted=(_admit(),), chunk_slots=[0], chunk_counts=[6])],
    "an empty chunk": [_plan(1, admitted=(_admit(),), chunk_slots=[0], chunk_counts=[0])],
    "decoding before the prompt is computed": [_plan(1, admitted=(_admit(),), started=[0])],
    "started twice": [_plan(1, **_PREFILLED), _plan(2, started=[0]), _plan(3, started=[0])],
    "paused while not decoding": [_plan(1, **_PREFILLED), _plan(2, paused=[0])],
    "a chunk for a decoding slot": [
        _plan(1, **_PREFILLED),
        _plan(2, started=[0], chunk_slots=[0], chunk_counts=[1]),
    ],
    "a chunk beside the decode set": [_plan(1, **_PREFILLED), _plan(2, chunk_slots=[0], chunk_counts=[1], started=[0])],
    "one block for two slots": [
        _plan(1, admitted=(_admit(slot=0), _admit(slot=1, text=b"other")), chunk_slots=[0, 1], chunk_counts=[5, 5])
    ],
    "a foreign block in use": [
        _plan(1, **_PREFILLED),
        _plan(2, admitted=(_admit(slot=1, text=b"other"),), chunk_slots=[1], chunk_counts=[5]),
        _plan(3, started=[0]),
    ],
    "a prefix that is not there": [
        _plan(1, admitted=(_admit(text=b"x" * 17, blocks=(0, 1), computed=16),), chunk_slots=[0], chunk_counts=[1])
    ],
    "too many tokens for a step": [
        _plan(1, admitted=(_admit(text=b"x" * 70, blocks=range(5), limit=80),), chunk_slots=[0], chunk_counts=[65])
    ],
    "a limit beyond the context": [_plan(1, admitted=(_admit(limit=9000),))],
}


@pytest.mark.parametrize("plans", _WRONG.values(), ids=_WRONG)
def test_a_wrong_plan_is_found(plans):
    """Each way to break the protocol ends in BrokenPlan at the plan that breaks it."""
    executor = _executor()
    for plan in plans[:-1]:
        executor.step(plan)
    with pytest.raises(BrokenPlan):
        executor.step(plans[-1])


def test_a_paused_slot_rests_and_goes_on():
    """A paused slot computes nothing until it is started again, and has lost nothing."""
    executor = _executor()
    executor.step(_plan(1, **_PREFILLED))
    assert executor.step(_plan(2, started=[0])).tokens.tolist() == [ord("e")]
    assert executor.step(_plan(3, paused=[0])).tokens.size == 0
    assert executor.step(_plan(4, started=[0])).tokens.tolist() == [ord("l")]


def test_steps_take_the_time_of_the_model_only_when_they_may_sleep():
    """The result says the simulated time; it passes only with an injected sleep."""
    naps = []
    model = SimulatedModel(step_fixed_us=1000, step_per_token_us=10, step_per_context_token_ns=1000)
    executor = SimulatedExecutor(model, sleep=naps.append)
    executor.reset(1, _RESET)
    result = executor.step(_plan(1, **_PREFILLED))
    assert result.step_us == 1000 + 5 * 10 + 5
    assert naps == [result.step_us / 1e6]


@pytest.mark.parametrize(("kill_token", "killed"), [(ord("h"), True), (ord("z"), False)])
def test_the_kill_hook_strikes_at_output_40(kill_token, killed):
    """Only a prompt with the token kills, and only when its output number 40 is drawn."""
    deaths = []
    model = SimulatedModel(script="count", kill_token=kill_token)
    executor = SimulatedExecutor(model, kill=lambda: deaths.append(1))
    executor.reset(1, _RESET)
    admitted = _admit(limit=60, blocks=range(4))
    executor.step(_plan(1, admitted=(admitted,), chunk_slots=[0], chunk_counts=[5]))
    executor.step(_plan(2, started=[0]))
    _run(executor, 38, first=3)
    assert deaths == []
    _run(executor, 1, first=41)
    assert bool(deaths) is killed


def test_settings_reach_the_model():
    """A process's settings say what is simulated."""
    settings = ExecutorSettings(backend="simulated", simulated_script="count", simulated_num_blocks=9, max_slots=3)
    model = simulated_model(settings)
    assert (model.script, model.num_blocks, model.max_slots, model.kill_token) == ("count", 9, 3, -1)
