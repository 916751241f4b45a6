import random

import pytest

from services.scheduler.core.step_cost import StepCost


def true_us(num_tokens: int, context: int) -> int:
    return 1000 + 20 * num_tokens + 5 * context // 1000


def fitted(num_steps: int = 400, noise: float = 0.0) -> StepCost:
    """Decodes of 64 whose context grows, and a prompt's chunk beside them now and then."""
    model, rng = StepCost(), random.Random(1)
    for step in range(num_steps):
        chunk = rng.randrange(1, 500) if step < 3 or step % 7 == 0 else 0
        num_tokens, context = 64 + chunk, 64 * (400 + step) + chunk
        step_us = round(true_us(num_tokens, context) * rng.uniform(1 - noise, 1 + noise))
        model.observe(num_tokens, context, step_us, predicted_us=model.predict_us(num_tokens, context))
    return model


def test_before_the_first_step_everything_costs_nothing():
    """Zero means unknown, and any number of tokens fits."""
    assert StepCost().predict_us(100, 1000) == 0
    assert StepCost().tokens_within(1, 0) == -1


def test_the_three_parts_are_found():
    """1 ms, 20 us a token and 5 ns a token of context: sizes far from any that was seen are predicted within 2 %."""
    model = fitted()
    for size in ((1, 100), (64, 40_000), (300, 60_000), (700, 200_000)):
        assert model.predict_us(*size) == pytest.approx(true_us(*size), rel=0.02)


def test_noise_is_averaged_out():
    """Where measurements are off by up to 5 %, steps like those seen are predicted within 5 %."""
    model = fitted(noise=0.05)
    for size in ((64, 40_000), (300, 45_000), (500, 50_000)):
        assert model.predict_us(*size) == pytest.approx(true_us(*size), rel=0.05)


def test_from_steps_of_one_size_half_is_taken_for_fixed():
    """A prompt beside decodes that were all there was is not taken to be free."""
    model = StepCost()
    for step in range(50):
        model.observe(64, 64_000 + 64 * step, 10_000, predicted_us=0)
    assert model.predict_us(128, 64_000) == pytest.approx(15_000, rel=0.01)
    assert model.predict_us(64, 64_000) == pytest.approx(10_000, rel=0.01)


def test_a_thousand_decodes_do_not_push_out_what_a_prompt_has_taught():
    """The cost of a token is still known, though nearly all of the newest steps have none to spare."""
    model = StepCost()
    model.observe(500, 500, true_us(500, 500), predicted_us=0)
    for _ in range(1000):
        model.observe(8, 8000, true_us(8, 8000), predicted_us=0)
    assert model.predict_us(400, 8000) == pytest.approx(true_us(400, 8000), rel=0.05)


def test_a_slower_machine_is_noticed_within_a_window():
    """When every step takes twice as long, so do the predictions after a few dozen steps."""
    model = fitted()
    for step in range(100):
        num_tokens, context = (64, 50_000) if step % 4 else (300, 50_000)
        model.observe(num_tokens, context, 2 * true_us(num_tokens, context), predicted_us=0)
    for size in ((64, 50_000), (300, 50_000)):
        assert model.predict_us(*size) == pytest.approx(2 * true_us(*size), rel=0.25)


def test_nothing_costs_less_than_nothing():
    """Measurements that contradict each other give no negative part, and no step below zero."""
    model, rng = StepCost(), random.Random(2)
    for _ in range(500):
        model.observe(rng.randrange(1, 2000), rng.randrange(1, 10**6), rng.randrange(1, 10**6), predicted_us=0)
        assert min(model.predict_us(0, 0), model.predict_us(1, 0), model.predict_us(0, 1)) >= 0
        assert model.predict_us(1, 0) <= model.predict_us(2, 0)
        assert model.predict_us(0, 1) <= model.predict_us(0, 2)


def test_what_fits_within_a_time_takes_no_longer_than_that():
    """And one token more would; what has been computed of the prompt is read again with each chunk."""
    model = fitted()
    decode_us = model.predict_us(64, 30_000)
    for spare_us, start in ((3000, 0), (3000, 4000), (500, 0)):
        num_tokens = model.tokens_within(spare_us, start)
        assert model.predict_us(64 + num_tokens, 30_000 + start + num_tokens) <= decode_us + spare_us + 1
        assert model.predict_us(65 + num_tokens, 30_001 + start + num_tokens) >= decode_us + spare_us - 1
    assert model.tokens_within(-1, 0) == 0


def test_the_error_is_the_mean_distance_of_late():
    """Nothing on predictable steps; what each is off by otherwise; it is forgotten again."""
    model = StepCost()
    model.observe(1, 1, 1000, predicted_us=0)
    assert model.error_us == 0
    for _ in range(200):
        model.observe(1, 1, 1000, predicted_us=1300)
    assert 290 <= model.error_us <= 300
    for _ in range(200):
        model.observe(1, 1, 1000, predicted_us=1000)
    assert model.error_us < 10


def test_memory_is_bounded():
    """However many sizes there are."""
    model, rng = StepCost(), random.Random(3)
    for _ in range(3000):
        model.observe(rng.randrange(1, 2**20), rng.randrange(1, 2**30), 1000, predicted_us=0)
    assert len(model._kinds) <= 48


def test_it_is_fitted_when_steps_of_several_sizes_agree_on_a_cost():
    """Not by one size, nor by more tokens with more context that took less."""
    cost = StepCost()
    cost.observe(1, 100, 10_200, predicted_us=0)
    cost.observe(1, 300, 10_300, predicted_us=0)
    assert not cost.is_fitted
    cost.observe(20, 300, 12_000, predicted_us=0)
    assert cost.is_fitted
    absurd = StepCost()
    absurd.observe(1, 100, 10_200, predicted_us=0)
    absurd.observe(2, 300, 10_000, predicted_us=0)
    assert not absurd.is_fitted
