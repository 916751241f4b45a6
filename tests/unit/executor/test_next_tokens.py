"""Which rows are drawn, from which logits, with which random numbers."""

import numpy as np
import pytest

from services.executor.next_tokens import next_tokens
from services.executor.sampling import draw
from services.executor.slots import Slot
from services.executor.uniform import uniform
from services.wire.execution import AdmittedSlot, Sampling
from services.wire.message import float32_column, int32_column
from tests.support.numpy_draws import NumpyDraws


class Counted(NumpyDraws):
    """Keeps which rows were looked through, and what was drawn from."""

    def __init__(self):
        self.best_of = []
        self.calls = []

    def best(self, logits, rows):
        self.best_of += rows.tolist()
        return NumpyDraws.best(logits, rows)

    def draw(self, logits, rows, draws, *, are_masked=False):
        self.calls.append((logits, rows.tolist(), are_masked))
        return NumpyDraws.draw(logits, rows, draws, are_masked=are_masked)


def slot(seed=11, tokens=(5, 6, 7), **parameters):
    admitted = AdmittedSlot(
        slot=0,
        token_ids=int32_column(tokens),
        prompt_length=2,
        token_limit=9,
        blocks=int32_column(),
        seed=seed,
        sampling=Sampling(**parameters),
    )
    return Slot(admitted, (1,))


def rows(count):
    return np.random.default_rng(0).standard_normal((count, 30)).astype(np.float32)


def test_greedy_slots_take_the_best_without_a_draw():
    """Nothing is drawn where nobody has a temperature or adjusts logits."""
    logits, backend = rows(3), Counted()
    assert next_tokens(backend, [slot(temperature=0.0)] * 3, logits).tolist() == logits.argmax(axis=1).tolist()
    assert backend.best_of == [0, 1, 2]
    assert backend.calls == []


def test_a_least_length_costs_only_while_it_bars_a_token():
    """The model's logits are drawn from where nothing can stop the answer, and once it is long enough."""
    best = np.zeros((3, 30), np.float32)
    best[:, 1], best[:, 2] = 2.0, 1.0  # token 1 would end an answer
    backend = Counted()
    barred, endless, long_enough = (
        slot(temperature=0.0, min_tokens=2),
        slot(temperature=0.0, min_tokens=2, ignore_eos=True),
        slot(temperature=0.0, min_tokens=1),
    )
    assert next_tokens(backend, [barred, endless, long_enough], best).tolist() == [2, 1, 1]
    ((_, drawn_rows, are_masked),) = backend.calls
    assert (drawn_rows, are_masked) == ([0], True)


def test_slots_with_a_temperature_are_drawn_together_from_the_logits_as_they_are():
    """Each with the uniform of its seed and position; no logits are copied, and none looked through before the draw."""
    logits, backend = rows(4), Counted()
    slots = [
        slot(1, temperature=20.0),
        slot(temperature=0.0),
        slot(2, temperature=20.0),
        slot(1, (3, 4), temperature=20.0),
    ]
    numbers = {0: uniform(1, 3), 2: uniform(2, 3), 3: uniform(1, 2)}
    expected = logits.argmax(axis=1).tolist()
    for row, number in numbers.items():
        expected[row] = draw(logits[row], slots[row].admitted.sampling, number)
    assert next_tokens(backend, slots, logits).tolist() == expected
    ((drawn_from, drawn_rows, are_masked),) = backend.calls
    assert drawn_from is logits
    assert (drawn_rows, are_masked) == ([0, 2, 3], False)
    assert backend.best_of == [1]


def test_adjusted_rows_are_drawn_together_and_leave_the_logits_alone():
    """With a temperature and without; what others are given stays the model's own."""
    logits, backend = rows(3), Counted()
    before = logits.copy()
    to_end = {"bias_ids": int32_column([29]), "bias_values": float32_column([100.0])}
    banned = int32_column([int(logits[2].argmax())])
    slots = [slot(temperature=0.8, **to_end), slot(temperature=0.0), slot(temperature=0.0, banned_ids=banned)]
    second = int(logits[2].argsort()[-2])
    assert next_tokens(backend, slots, logits).tolist() == [29, int(logits[1].argmax()), second]
    assert [(len(drawn_rows), are_masked) for _, drawn_rows, are_masked in backend.calls] == [(2, True)]
    np.testing.assert_array_equal(logits, before)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_have_no_token(poison):
    """Whatever their slot asks for; they are not adjusted, and an infinity of the model's is no mask."""
    logits, backend = rows(3), Counted()
    logits[:, 4] = poison
    slots = [slot(temperature=0.8), slot(temperature=0.0), slot(temperature=0.8, presence_penalty=1.0)]
    assert next_tokens(backend, slots, logits).tolist() == [-1, -1, -1]
    assert [drawn_rows for _, drawn_rows, _ in backend.calls] == [[0]]


def test_masks_that_leave_nothing_leave_no_token():
    """Greedy or drawn."""
    nothing = {"allowed_ids": int32_column([4]), "banned_ids": int32_column([4])}
    slots = [slot(temperature=0.8, **nothing), slot(temperature=0.0, **nothing)]
    assert next_tokens(NumpyDraws(), slots, rows(2)).tolist() == [-1, -1]
