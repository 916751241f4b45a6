from services.scheduler.core.step_time import StepTime


def test_nothing_is_predicted_before_a_measurement():
    """Zero means unknown."""
    assert StepTime().predict_us(100) == 0


def test_the_first_measurement_is_the_estimate_and_later_ones_move_it():
    """To the mean of the first eight; then by an eighth each, so that a slow first step is forgotten soon."""
    model = StepTime()
    model.observe(100, 8000)
    assert model.predict_us(100) == 8000
    model.observe(100, 16000)
    assert model.predict_us(100) == 12_000
    for _ in range(6):
        model.observe(100, 12_000)
    model.observe(100, 20_000)
    assert model.predict_us(100) == 13_000


def test_from_one_size_a_larger_step_is_half_scaled_and_a_smaller_one_never_down():
    """The fixed cost of a step is unknown: half is assumed, and at most eight times as long."""
    model = StepTime()
    model.observe(100, 8000)
    assert model.predict_us(400) == 4000 + 4 * 4000
    assert model.predict_us(100_000) == 64_000
    assert model.predict_us(3) == 8000


def test_from_two_sizes_the_fixed_cost_and_the_cost_per_token_are_known():
    """50 ms and 20 us a token: a larger step, and one between, are predicted to the millisecond."""
    model = StepTime()
    for num_tokens in (1, 3, 20, 1, 1, 40):
        model.observe(num_tokens, 50_000 + 20 * num_tokens)
    assert abs(model.predict_us(512) - 60_240) < 1000
    assert abs(model.predict_us(10) - 50_200) < 1000
    assert abs(model.predict_us(4096) - 131_920) < 1000


def test_a_larger_step_is_never_predicted_to_be_faster():
    """Where large steps happened to be fast, the cost per token is none."""
    model = StepTime()
    model.observe(1, 50_000)
    model.observe(64, 10_000)
    assert 10_000 <= model.predict_us(512) <= 50_000


def test_at_worst_a_larger_step_than_any_seen_costs_per_token():
    """A known size takes what it takes."""
    model = StepTime()
    model.observe(1, 50_000)
    assert model.longest_us(1) == 50_000
    assert model.longest_us(512) == 512 * 50_000
    assert StepTime().longest_us(512) == 0


def test_equal_measurements_give_equal_estimates():
    """Integers only: a replay agrees."""
    models = [StepTime(), StepTime()]
    for model in models:
        for size in range(1, 200):
            model.observe(size, size * 37)
    assert models[0].predict_us(77) == models[1].predict_us(77)
